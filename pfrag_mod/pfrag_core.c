// SPDX-License-Identifier: GPL-2.0
/*
 * The fragment cache: everything behind the fast paths of pfrag.h.
 *
 * The story of a block, read top to bottom: it is allocated and its references
 * are paid in advance (pfrag_refill), used up, started again when all fragments
 * came home (pfrag_restart), else given up (pfrag_block_put).
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/minmax.h>
#include <linux/module.h>

#include "pfrag.h"
#include "pfrag_compat.h"
#include "pfrag_internal.h"

/* How many blocks, and pages in them, the caches of the system hold. */
static atomic_long_t pfrag_nr_blocks = ATOMIC_LONG_INIT(0);
static atomic_long_t pfrag_nr_pages = ATOMIC_LONG_INIT(0);

long pfrag_live_blocks(void)
{
	return atomic_long_read(&pfrag_nr_blocks);
}
pfrag_export_symbol(pfrag_live_blocks);

long pfrag_live_pages(void)
{
	return atomic_long_read(&pfrag_nr_pages);
}
pfrag_export_symbol(pfrag_live_pages);

static void pfrag_count_block(unsigned int order, int sign)
{
	atomic_long_add(sign, &pfrag_nr_blocks);
	atomic_long_add((long)sign << order, &pfrag_nr_pages);
}

static size_t pfrag_block_size(unsigned long block)
{
	return PAGE_SIZE << pfrag_block_order(block);
}

static struct page *pfrag_block_page(unsigned long block)
{
	unsigned long start = pfrag_block_end(block) - pfrag_block_size(block);

	return virt_to_page((void *)start);
}

/**
 * pfrag_free_block() - free a block whose last reference was dropped
 * @page: its first page, with a count of 0
 *
 * The count stays 0: raising it to 1 first, so as to hand the page to
 * __free_pages(), would open a window for a speculative get_page_unless_zero().
 *
 * Context: Any but NMI.
 */
void pfrag_free_block(struct page *page)
{
	pfrag_compat_free_zero_page(page);
}
pfrag_export_symbol(pfrag_free_block);

static struct page *pfrag_block_alloc(gfp_t gfp, unsigned int order)
{
	if (pfrag_hook_fails(order))
		return NULL;
	return alloc_pages_node(NUMA_NO_NODE, gfp, order);
}

/* Give up a block that a cache holds with @bias references. */
static void pfrag_block_put(unsigned long block, u32 bias)
{
	struct page *page = pfrag_block_page(block);

	pfrag_count_block(pfrag_block_order(block), -1);
	if (page_ref_sub_and_test(page, bias))
		pfrag_free_block(page);
}

/*
 * Start the current block again from its front, if it holds a fragment of @need
 * bytes and nobody but the cache has a reference. References are also taken
 * behind our back (clones, splice, pinned pages), so only the count can tell;
 * and a speculative get may raise it at any moment, so it is added to and never
 * overwritten.
 */
static bool pfrag_restart(struct pfrag_cache *nc, size_t need)
{
	struct page *page;

	if (!nc->block || pfrag_cache_is_pfmemalloc(nc) ||
	    need > pfrag_block_size(nc->block))
		return false;

	page = pfrag_block_page(nc->block);
	if (page_ref_count(page) != nc->bias)
		return false;
	/*
	 * Pairs with the full barrier of the atomic decrement in pfrag_free(),
	 * or in put_page(): what the last owner did to its fragment is done.
	 */
	smp_acquire__after_ctrl_dep();

	page_ref_add(page, PFRAG_BIAS_MAX - nc->bias);
	nc->bias = PFRAG_BIAS_MAX;
	nc->left = pfrag_block_size(nc->block);
	return true;
}

/*
 * Replace the current block by a new one that holds a fragment of @need bytes.
 * The old one is given up last: a cache that gets no memory is as it was, and
 * what is left in it still serves smaller requests.
 */
static bool pfrag_refill(struct pfrag_cache *nc, size_t need, gfp_t gfp)
{
	unsigned int order = PFRAG_MAX_ORDER;
	unsigned long block;
	struct page *page;

	gfp &= ~(__GFP_ZERO | __GFP_HIGHMEM | __GFP_MOVABLE);
	gfp |= __GFP_COMP;

	page = pfrag_block_alloc((gfp & ~__GFP_DIRECT_RECLAIM) | __GFP_NOWARN |
				 __GFP_NORETRY | __GFP_NOMEMALLOC, order);
	if (!page) {
		order = get_order(need);
		page = pfrag_block_alloc(gfp, order);
		if (!page)
			return false;
	}

	block = (unsigned long)page_address(page) + (PAGE_SIZE << order);
	block |= order;
	if (page_is_pfmemalloc(page) || READ_ONCE(pfrag_hooks.pfmemalloc))
		block |= PFRAG_BLOCK_PFMEMALLOC;

	/* Added, not set: a speculative get may hold a reference by now. */
	page_ref_add(page, PFRAG_BIAS_MAX - 1);
	pfrag_count_block(order, 1);

	if (nc->block)
		pfrag_block_put(nc->block, nc->bias);
	nc->block = block;
	nc->bias = PFRAG_BIAS_MAX;
	nc->left = PAGE_SIZE << order;
	return true;
}

/**
 * pfrag_alloc_slow() - allocate a fragment that the rest of the block cannot hold
 * @nc: the cache
 * @size: bytes, as the caller gave them
 * @gfp: as the caller gave it
 * @align: bytes, a power of two
 *
 * Also the place where a size or an alignment out of range is refused, so that
 * the fast path need not look.
 *
 * Context: As pfrag_alloc_align().
 * Return: the fragment, or NULL with @nc as it was.
 */
noinline void *pfrag_alloc_slow(struct pfrag_cache *nc, size_t size, gfp_t gfp,
				size_t align)
{
	size_t need = max(size, align);

	if (!size || need > PFRAG_MAX_SIZE)
		return NULL;
	if (!pfrag_restart(nc, need) && !pfrag_refill(nc, need, gfp))
		return NULL;

	/*
	 * The whole block is free, and it is aligned to its own size, which is
	 * not below @align: the fragment is its front.
	 */
	nc->left -= size;
	nc->bias--;
	return (void *)(pfrag_block_end(nc->block) - nc->left - size);
}
pfrag_export_symbol(pfrag_alloc_slow);

void pfrag_cache_drain(struct pfrag_cache *nc)
{
	if (nc->block)
		pfrag_block_put(nc->block, nc->bias);
	pfrag_cache_init(nc);
}
pfrag_export_symbol(pfrag_cache_drain);

static int __init pfrag_init(void)
{
	pfrag_debug_init();
	return 0;
}

static void __exit pfrag_exit(void)
{
	pfrag_debug_exit();
	/* Users of our symbols are gone by now, and so must be their caches. */
	WARN(pfrag_live_blocks(), "%ld blocks (%ld pages) were never drained\n",
	     pfrag_live_blocks(), pfrag_live_pages());
}

module_init(pfrag_init);
module_exit(pfrag_exit);
MODULE_DESCRIPTION("Page fragment allocator for stock kernels");
MODULE_AUTHOR("The pfrag developers");
MODULE_VERSION(PFRAG_VERSION);
MODULE_LICENSE("GPL");
