/* SPDX-License-Identifier: GPL-2.0 */
/*
 * pfrag: page fragments on stock kernels. Public interface.
 *
 * A module that uses it includes this header and imports the symbol
 * namespace PFRAG.
 */
#ifndef PFRAG_H
#define PFRAG_H

#include <linux/build_bug.h>
#include <linux/compiler.h>
#include <linux/gfp.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/page_ref.h>
#include <linux/string.h>
#include <linux/types.h>

/**
 * DOC: page fragments
 *
 * A driver that needs many buffers smaller than a page owns a &struct
 * pfrag_cache. The cache takes one block of pages from the page allocator and
 * hands it out from the front to the back. The block's reference count is paid
 * in advance, so pfrag_alloc() touches nothing but the cache itself; what is
 * left of the advance is the cache's *bias*. Whoever frees a fragment drops one
 * reference, on any CPU and with no pointer to the cache.
 *
 * When the block is used up, the cache looks at the count. If it equals the
 * bias, every fragment has come home and the same block starts again with no
 * visit to the page allocator. If it does not, the cache gives its bias back;
 * the fragments then own the block, and the last one to be freed frees it.
 *
 * The caller serialises all calls that name the same cache: one cache a NAPI
 * instance, one a kthread, or a lock of the caller's own. pfrag_free() names
 * no cache and needs no such care.
 *
 * The idea, the block of 32 KiB and the advance payment are those of the
 * kernel's page_frag_cache (mm/page_frag_cache.c); docs/design.md lists where
 * pfrag departs from it.
 */

/* Largest block, and so the largest fragment and the largest alignment. */
#define PFRAG_MAX_ORDER		(PAGE_SHIFT < 15 ? 15 - PAGE_SHIFT : 0)
#define PFRAG_MAX_SIZE		(PAGE_SIZE << PFRAG_MAX_ORDER)

/*
 * References a cache holds on a block of which nothing is handed out yet. A
 * fragment takes at least one byte, so a block yields at most PFRAG_MAX_SIZE of
 * them; the one on top keeps the block while the last is handed out. At every
 * moment: bias > left.
 */
#define PFRAG_BIAS_MAX		(PFRAG_MAX_SIZE + 1)

/*
 * pfrag_cache::block. Blocks end on a page boundary, so the bits below PAGE_SHIFT
 * are free: four for the order, one for "from the memory reserves".
 */
#define PFRAG_BLOCK_ORDER	0xfUL
#define PFRAG_BLOCK_PFMEMALLOC	0x10UL

/**
 * struct pfrag_cache - a block and how much of it is left
 * @block: address of the first byte behind the block, its order and whether it
 *	came from the memory reserves, in one word; 0 without a block. The end
 *	and not the start: "end - left" is the next fragment, with no need to
 *	work out the block's size on the fast path.
 * @left: bytes at the end of the block that have not been handed out
 * @bias: references to the block that the cache still holds
 *
 * Only the owner of the cache reads or writes it. Zero bytes are an empty cache.
 */
struct pfrag_cache {
	unsigned long block;
	u32 left;
	u32 bias;
};

static_assert(sizeof(struct pfrag_cache) == 8 + sizeof(unsigned long));
static_assert(PFRAG_MAX_ORDER <= PFRAG_BLOCK_ORDER);
static_assert((PFRAG_BLOCK_ORDER | PFRAG_BLOCK_PFMEMALLOC) < PAGE_SIZE);

static inline unsigned long pfrag_block_end(unsigned long block)
{
	return block & PAGE_MASK;
}

static inline unsigned int pfrag_block_order(unsigned long block)
{
	return block & PFRAG_BLOCK_ORDER;
}

/* The exits of the two fast paths below; no calls for users. */
void *pfrag_alloc_slow(struct pfrag_cache *nc, size_t size, gfp_t gfp,
		       size_t align);
void pfrag_free_block(struct page *page);

/**
 * pfrag_cache_init() - make a cache empty
 * @nc: the cache; its old content is not looked at
 *
 * A cache in zeroed memory is empty already. A cache that may hold a block is
 * emptied with pfrag_cache_drain(), not with this.
 *
 * Context: Any.
 */
static inline void pfrag_cache_init(struct pfrag_cache *nc)
{
	nc->block = 0;
	nc->left = 0;
	nc->bias = 0;
}

/**
 * pfrag_cache_drain() - give the block of a cache back
 * @nc: the cache: fresh, used or already drained
 *
 * Fragments that are still alive stay valid; the last of them to be freed frees
 * the block. The cache is empty afterwards and may be used again.
 *
 * Context: Any but NMI. The caller serialises calls on @nc.
 */
void pfrag_cache_drain(struct pfrag_cache *nc);

/**
 * pfrag_cache_is_pfmemalloc() - did the current block come from the reserves?
 * @nc: the cache
 *
 * A driver asks after an allocation, to mark its skb. Such a block serves until
 * it is used up and is never started again.
 *
 * Context: Any. The caller serialises calls on @nc.
 * Return: true if the block was allocated from the memory reserves.
 */
static inline bool pfrag_cache_is_pfmemalloc(const struct pfrag_cache *nc)
{
	return nc->block & PFRAG_BLOCK_PFMEMALLOC;
}

/**
 * pfrag_alloc_align() - allocate a fragment at an aligned address
 * @nc: the cache
 * @size: bytes, 1 to %PFRAG_MAX_SIZE
 * @gfp: how the page allocator is asked when the cache needs a new block
 * @align: bytes, a power of two, 1 to %PFRAG_MAX_SIZE; it holds for the address,
 *	not only for the offset in the block
 *
 * A fragment never leaves its block, also when it is larger than a page: if the
 * page allocator has no block that holds it whole, the answer is NULL. The
 * first attempt at a block is of %PFRAG_MAX_ORDER and light-handed (no direct
 * reclaim, no reserves, no warning); the second is of the least order that holds
 * @size and @align, and obeys @gfp.
 *
 * With __GFP_ZERO the fragment is zeroed, whatever the block was used for before.
 * __GFP_HIGHMEM and __GFP_MOVABLE are ignored: a fragment has an address and
 * stays where it is.
 *
 * Context: As @gfp allows: with GFP_ATOMIC any context but NMI. The caller
 * serialises calls on @nc.
 * Return: the fragment, or NULL with @nc as it was: @size or @align out of range,
 * or no memory.
 */
static __always_inline void *pfrag_alloc_align(struct pfrag_cache *nc,
					       size_t size, gfp_t gfp,
					       size_t align)
{
	size_t left = nc->left;
	size_t pad;
	void *va;

	if (unlikely(!is_power_of_2(align)))
		return NULL;

	va = (void *)(pfrag_block_end(nc->block) - left);
	pad = -(unsigned long)va & (align - 1);

	/* A size of 0 wraps round and takes the slow path, which refuses it. */
	if (unlikely(size - 1 >= left || pad > left - size)) {
		va = pfrag_alloc_slow(nc, size, gfp, align);
	} else {
		nc->left = left - size - pad;
		nc->bias--;
		va += pad;
	}

	if ((gfp & __GFP_ZERO) && va)
		memset(va, 0, size);
	return va;
}

/**
 * pfrag_alloc() - allocate a fragment
 * @nc: the cache
 * @size: bytes, 1 to %PFRAG_MAX_SIZE
 * @gfp: how the page allocator is asked when the cache needs a new block
 *
 * Fragments follow each other with no gap: keep @size a multiple of the
 * alignment you need, or use pfrag_alloc_align().
 *
 * Context: As @gfp allows: with GFP_ATOMIC any context but NMI. The caller
 * serialises calls on @nc.
 * Return: the fragment, or NULL with @nc as it was: @size out of range, or no
 * memory.
 */
static __always_inline void *pfrag_alloc(struct pfrag_cache *nc, size_t size,
					 gfp_t gfp)
{
	return pfrag_alloc_align(nc, size, gfp, 1);
}

/**
 * pfrag_free() - free a fragment
 * @va: any address inside the fragment; not NULL
 *
 * The cache it came from may be in use, drained or gone.
 *
 * Context: Any but NMI, on any CPU, with no serialisation.
 */
static __always_inline void pfrag_free(const void *va)
{
	struct page *page = virt_to_head_page(va);

	if (unlikely(page_ref_dec_and_test(page)))
		pfrag_free_block(page);
}

/**
 * pfrag_live_blocks() - blocks that caches hold at the moment
 *
 * A drained block is not counted, even if fragments of it live: they own it.
 *
 * Context: Any.
 * Return: number of blocks, over all caches of the system.
 */
long pfrag_live_blocks(void);

/**
 * pfrag_live_pages() - order-0 pages in the blocks that caches hold
 *
 * Context: Any.
 * Return: number of pages, over all caches of the system.
 */
long pfrag_live_pages(void);

#endif /* PFRAG_H */
