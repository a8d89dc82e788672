// SPDX-License-Identifier: GPL-2.0
/*
 * In-kernel tests of the fragment cache: each promise of pfrag.h, and each way in
 * which memory can be short. Loading runs them; KTAP goes to the kernel log. Without
 * KUnit a failure makes loading fail with -EIO.
 *
 * Expected figures are written out and not taken from pfrag.h: a block has 32768
 * bytes and starts with 32769 references.
 */
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/string.h>

#include "pfrag.h"
#include "pfrag_compat.h"
#include "pfrag_internal.h"
#include "pfrag_ktest.h"

static unsigned int pfrag_test_steps = 100000;
module_param_named(steps, pfrag_test_steps, uint, 0444);
MODULE_PARM_DESC(steps, "Steps of the random test (default 100000)");

static unsigned int pfrag_test_seed = 1;
module_param_named(seed, pfrag_test_seed, uint, 0444);
MODULE_PARM_DESC(seed, "Seed of the random test (default 1)");

/* Each case starts with no block alive and no hook set, and leaves it so. */
static void pfrag_test_reset_hooks(void)
{
	WRITE_ONCE(pfrag_hooks.nth, 0);
	pfrag_hooks.times = 1;
	pfrag_hooks.order0_only = false;
	pfrag_hooks.pfmemalloc = false;
}

/* Let the Nth visit to the page allocator fail, and those after it. */
static void pfrag_test_fail_visits(u32 nth, u32 times)
{
	pfrag_hooks.times = times;
	WRITE_ONCE(pfrag_hooks.nth, nth);
}

static int pfrag_test_init_case(struct kunit *test)
{
	pfrag_test_reset_hooks();
	return 0;
}

static void pfrag_test_exit_case(struct kunit *test)
{
	pfrag_test_reset_hooks();
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 0L);
	KUNIT_EXPECT_EQ(test, pfrag_live_pages(), 0L);
}

static bool pfrag_test_same_cache(const struct pfrag_cache *a,
				  const struct pfrag_cache *b)
{
	return a->block == b->block && a->left == b->left && a->bias == b->bias;
}

static struct page *pfrag_test_head(const void *va)
{
	return virt_to_head_page(va);
}

static void pfrag_test_layout(struct kunit *test)
{
	KUNIT_EXPECT_EQ(test, sizeof(struct pfrag_cache), (size_t)16);
	KUNIT_EXPECT_EQ(test, (unsigned long)PFRAG_MAX_SIZE, 32768UL);
}

static void pfrag_test_drain_any_state(struct kunit *test)
{
	struct pfrag_cache nc;
	void *va;

	memset(&nc, 0xff, sizeof(nc));
	pfrag_cache_init(&nc);
	pfrag_cache_drain(&nc);			/* fresh */
	pfrag_cache_drain(&nc);			/* already drained */
	KUNIT_EXPECT_FALSE(test, pfrag_cache_is_pfmemalloc(&nc));

	va = pfrag_alloc(&nc, 100, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 1L);
	KUNIT_EXPECT_EQ(test, pfrag_live_pages(), 8L);
	pfrag_cache_drain(&nc);			/* used */
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 0L);
	pfrag_cache_drain(&nc);
	pfrag_free(va);

	va = pfrag_alloc(&nc, 100, GFP_KERNEL);	/* and usable again */
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	pfrag_free(va);
	pfrag_cache_drain(&nc);
}

/* Refused on a fresh cache and on one in use; neither changes. */
static void pfrag_test_refuse(struct kunit *test, size_t size, size_t align)
{
	struct pfrag_cache nc, before;
	void *va;

	pfrag_cache_init(&nc);
	before = nc;
	KUNIT_EXPECT_PTR_EQ(test, pfrag_alloc_align(&nc, size, GFP_KERNEL, align),
			    NULL);
	KUNIT_EXPECT_TRUE(test, pfrag_test_same_cache(&nc, &before));

	va = pfrag_alloc(&nc, 100, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	before = nc;
	KUNIT_EXPECT_PTR_EQ(test, pfrag_alloc_align(&nc, size, GFP_KERNEL, align),
			    NULL);
	KUNIT_EXPECT_TRUE(test, pfrag_test_same_cache(&nc, &before));
	pfrag_free(va);
	pfrag_cache_drain(&nc);
}

static void pfrag_test_bad_size(struct kunit *test)
{
	static const size_t pfrag_test_sizes[] = {
		0, 32769, 65536, SIZE_MAX, SIZE_MAX - 63, (size_t)1 << 32,
		((size_t)1 << 32) + 256,
	};
	struct pfrag_cache nc;
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pfrag_test_sizes); i++) {
		pfrag_test_refuse(test, pfrag_test_sizes[i], 1);
		pfrag_test_refuse(test, pfrag_test_sizes[i], 64);
		pfrag_cache_init(&nc);
		KUNIT_EXPECT_PTR_EQ(test, pfrag_alloc(&nc, pfrag_test_sizes[i],
						      GFP_KERNEL), NULL);
	}
}

static void pfrag_test_bad_align(struct kunit *test)
{
	static const size_t pfrag_test_aligns[] = {
		0, 3, 24, 4095, 65535, 65536, SIZE_MAX, (size_t)1 << 32,
		(size_t)1 << 63,
	};
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(pfrag_test_aligns); i++)
		pfrag_test_refuse(test, 256, pfrag_test_aligns[i]);
}

/* Front to back with no gap, and then a block of its own for the next. */
static void pfrag_test_sequence(struct kunit *test)
{
	struct pfrag_cache nc;
	char *first, *next;
	unsigned int i;

	pfrag_cache_init(&nc);
	first = pfrag_alloc(&nc, 256, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, first);
	KUNIT_EXPECT_EQ(test, (unsigned long)first & 32767, 0UL);
	for (i = 1; i < 128; i++) {
		next = pfrag_alloc(&nc, 256, GFP_KERNEL);
		KUNIT_EXPECT_PTR_EQ(test, next, first + 256 * i);
	}
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 1L);
	KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(first)), 32769);
	KUNIT_EXPECT_EQ(test, nc.bias, 32769U - 128);

	/* All alive: the cache takes a new block and leaves them this one. */
	next = pfrag_alloc(&nc, 256, GFP_KERNEL);
	KUNIT_EXPECT_PTR_NE(test, pfrag_test_head(next), pfrag_test_head(first));
	KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(first)), 128);
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 1L);

	for (i = 0; i < 127; i++)
		pfrag_free(first + 256 * i);
	KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(first)), 1);
	pfrag_free(first + 256 * 127);
	pfrag_free(next);
	pfrag_cache_drain(&nc);
}

/* The worst case for the references: every fragment is one byte. */
static void pfrag_test_one_byte(struct kunit *test)
{
	struct pfrag_cache nc;
	char *first, *va;
	unsigned int i;

	pfrag_cache_init(&nc);
	first = pfrag_alloc(&nc, 1, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, first);
	for (i = 1; i < 32768; i++) {
		va = pfrag_alloc(&nc, 1, GFP_KERNEL);
		if (va != first + i)
			KUNIT_EXPECT_PTR_EQ(test, va, first + i);
	}
	KUNIT_EXPECT_EQ(test, nc.bias, 1U);
	KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(first)), 32769);
	pfrag_cache_drain(&nc);
	KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(first)), 32768);
	for (i = 0; i < 32767; i++)
		pfrag_free(first + i);
	KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(first)), 1);
	pfrag_free(first + 32767);
}

static void pfrag_test_align_address(struct kunit *test)
{
	struct pfrag_cache nc;
	unsigned int shift, i;
	size_t align;
	char *odd, *va;

	pfrag_cache_init(&nc);
	for (i = 0; i < 20; i++) {
		for (shift = 0; shift <= 15; shift++) {
			align = (size_t)1 << shift;
			odd = pfrag_alloc(&nc, 13, GFP_KERNEL);
			KUNIT_ASSERT_NOT_ERR_OR_NULL(test, odd);
			va = pfrag_alloc_align(&nc, 100, GFP_KERNEL, align);
			KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
			KUNIT_EXPECT_EQ(test, (unsigned long)va & (align - 1),
					0UL);
			KUNIT_EXPECT_PTR_EQ(test, pfrag_test_head(va),
					    pfrag_test_head(va + 99));
			/* Behind the odd one, unless in another block. */
			if (pfrag_test_head(odd) == pfrag_test_head(va) &&
			    va > odd)
				KUNIT_EXPECT_TRUE(test, va >= odd + 13);
			pfrag_free(odd);
			pfrag_free(va);
		}
	}
	pfrag_cache_drain(&nc);
}

/* Only what is left behind the padding counts. */
static void pfrag_test_align_at_end(struct kunit *test)
{
	struct pfrag_cache nc, before;
	char *first, *va;

	pfrag_cache_init(&nc);
	first = pfrag_alloc(&nc, 32768 - 100, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, first);

	/* 100 left, 36 of them padding: 64 fit, exactly. */
	before = nc;
	va = pfrag_alloc_align(&nc, 64, GFP_KERNEL, 64);
	KUNIT_EXPECT_PTR_EQ(test, va, first + 32768 - 64);
	KUNIT_EXPECT_EQ(test, nc.left, 0U);
	pfrag_free(va);

	/* Back to 100 left, less the reference that the 64 took: 65 do not. */
	nc = before;
	nc.bias--;
	va = pfrag_alloc_align(&nc, 65, GFP_KERNEL, 64);
	KUNIT_EXPECT_PTR_NE(test, pfrag_test_head(va), pfrag_test_head(first));
	KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(first)), 1);
	pfrag_free(first);
	pfrag_free(va);
	pfrag_cache_drain(&nc);
}

/* Larger than a page, by a byte and by much, and all of a block. */
static const size_t pfrag_test_large_sizes[] = { 4097, 10048, 32768 };

static void pfrag_test_large(struct kunit *test)
{
	static void *pfrag_test_vas[100];
	void **vas = pfrag_test_vas;
	struct pfrag_cache nc;
	unsigned int i, j;

	pfrag_cache_init(&nc);
	for (i = 0; i < ARRAY_SIZE(pfrag_test_large_sizes); i++) {
		for (j = 0; j < 100; j++) {
			char *va = pfrag_alloc(&nc, pfrag_test_large_sizes[i], GFP_KERNEL);

			vas[j] = va;
			KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
			memset(va, j, pfrag_test_large_sizes[i]);
			KUNIT_EXPECT_PTR_EQ(test, pfrag_test_head(va),
					    pfrag_test_head(va + pfrag_test_large_sizes[i] - 1));
		}
		for (j = 0; j < 100; j++) {
			KUNIT_EXPECT_PTR_EQ(test, memchr_inv(vas[j], j, pfrag_test_large_sizes[i]),
					    NULL);
			pfrag_free(vas[j]);
		}
	}
	pfrag_cache_drain(&nc);
}

#include "pfrag_test_short.h"

static void pfrag_test_restart(struct kunit *test)
{
	struct pfrag_cache nc;
	struct page *head;
	unsigned int i;
	char *va;

	pfrag_cache_init(&nc);
	va = pfrag_alloc(&nc, 1000, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	head = pfrag_test_head(va);
	pfrag_free(va);
	/* No memory at all, and none is needed for a hundred blocks' worth. */
	pfrag_test_fail_visits(1, PFRAG_HOOK_FOREVER);
	for (i = 0; i < 3300; i++) {
		va = pfrag_alloc(&nc, 1000, GFP_KERNEL);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
		KUNIT_EXPECT_PTR_EQ(test, pfrag_test_head(va), head);
		KUNIT_EXPECT_EQ(test, (u32)page_count(head), nc.bias + 1);
		pfrag_free(va);
	}
	/* Twice as many fragments as there were references to begin with. */
	for (i = 0; i < 70000; i++) {
		va = pfrag_alloc(&nc, 1, GFP_KERNEL);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
		if (pfrag_test_head(va) != head || nc.bias <= nc.left ||
		    (u32)page_count(head) != nc.bias + 1)
			break;
		pfrag_free(va);
	}
	KUNIT_EXPECT_EQ(test, i, 70000U);
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 1L);
	pfrag_cache_drain(&nc);
}

/*
 * A reference taken behind the cache's back, as a cloned skb or a speculative get
 * takes it: the block is given up, not started again, and not freed too early.
 */
static void pfrag_test_foreign_reference(struct kunit *test)
{
	struct pfrag_cache nc;
	struct page *head;
	char *va, *next;

	pfrag_cache_init(&nc);
	va = pfrag_alloc(&nc, 32768, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	head = pfrag_test_head(va);
	get_page(virt_to_page(va + 5000));
	pfrag_free(va);
	memset(va, 0x5a, 32768);

	next = pfrag_alloc(&nc, 32768, GFP_KERNEL);
	KUNIT_EXPECT_PTR_NE(test, next, va);
	KUNIT_EXPECT_EQ(test, page_count(head), 1);
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 1L);
	memset(next, 0xa5, 32768);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(va, 0x5a, 32768), NULL);
	put_page(virt_to_page(va + 5000));
	pfrag_free(next);
	pfrag_cache_drain(&nc);
}

static void pfrag_test_pfmemalloc(struct kunit *test)
{
	struct pfrag_cache nc;
	struct page *head;
	char *va, *next;

	pfrag_cache_init(&nc);
	pfrag_hooks.pfmemalloc = true;
	va = pfrag_alloc(&nc, 20000, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	KUNIT_EXPECT_TRUE(test, pfrag_cache_is_pfmemalloc(&nc));
	next = pfrag_alloc(&nc, 100, GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, next, va + 20000);
	pfrag_free(next);

	/* All came home, and it is replaced all the same. */
	pfrag_hooks.pfmemalloc = false;
	head = pfrag_test_head(va);
	pfrag_free(va);
	KUNIT_EXPECT_EQ(test, (u32)page_count(head), nc.bias);
	pfrag_test_fail_visits(1, 2);
	KUNIT_EXPECT_PTR_EQ(test, pfrag_alloc(&nc, 20000, GFP_KERNEL), NULL);
	KUNIT_EXPECT_TRUE(test, pfrag_cache_is_pfmemalloc(&nc));
	next = pfrag_alloc(&nc, 20000, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, next);
	KUNIT_EXPECT_FALSE(test, pfrag_cache_is_pfmemalloc(&nc));
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 1L);
	pfrag_free(next);
	pfrag_cache_drain(&nc);
	KUNIT_EXPECT_FALSE(test, pfrag_cache_is_pfmemalloc(&nc));
}

static void pfrag_test_drain_with_fragments(struct kunit *test)
{
	struct pfrag_cache nc;
	char *va[3];
	unsigned int i;

	pfrag_cache_init(&nc);
	for (i = 0; i < 3; i++) {
		va[i] = pfrag_alloc(&nc, 5000, GFP_KERNEL);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va[i]);
		memset(va[i], i + 1, 5000);
	}
	pfrag_cache_drain(&nc);
	KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(va[0])), 3);
	for (i = 0; i < 3; i++) {
		KUNIT_EXPECT_PTR_EQ(test, memchr_inv(va[i], i + 1, 5000), NULL);
		/* Any address of the fragment will do. */
		pfrag_free(va[i] + 4999 * i / 2);
		if (i < 2)
			KUNIT_EXPECT_EQ(test, page_count(pfrag_test_head(va[2])),
					2 - (int)i);
	}
}

static void pfrag_test_zero(struct kunit *test)
{
	struct pfrag_cache nc;
	unsigned char *va;

	pfrag_cache_init(&nc);
	va = pfrag_alloc(&nc, 32768, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	memset(va, 0xff, 32768);
	pfrag_free(va);

	/* Started again: its old content is still there where nobody asked. */
	va = pfrag_alloc(&nc, 3000, GFP_KERNEL | __GFP_ZERO);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(va, 0, 3000), NULL);
	KUNIT_EXPECT_EQ(test, (int)va[3000], 0xff);
	pfrag_free(va);
	va = pfrag_alloc_align(&nc, 3000, GFP_KERNEL | __GFP_ZERO, 512);
	KUNIT_EXPECT_PTR_EQ(test, memchr_inv(va, 0, 3000), NULL);
	KUNIT_EXPECT_EQ(test, (int)va[-1], 0xff);
	KUNIT_EXPECT_EQ(test, (int)va[3000], 0xff);
	pfrag_free(va);
	pfrag_cache_drain(&nc);
}

/*
 * Zone and mobility bits that make no sense for a fragment are ignored. (The guest
 * is booted with a movable zone, or this could not fail.)
 */
static void pfrag_test_gfp_bits(struct kunit *test)
{
	struct pfrag_cache nc;
	char *va;

	pfrag_cache_init(&nc);
	va = pfrag_alloc(&nc, 100, GFP_HIGHUSER_MOVABLE);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	KUNIT_EXPECT_NE(test, (int)page_zonenum(pfrag_test_head(va)),
			(int)ZONE_MOVABLE);
	memset(va, 1, 100);
	pfrag_free(va);
	pfrag_cache_drain(&nc);
	va = pfrag_alloc(&nc, 100, GFP_KERNEL | GFP_DMA32);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	KUNIT_EXPECT_LE(test, (u64)__pa(va), (u64)U32_MAX);
	pfrag_free(va);
	pfrag_cache_drain(&nc);
}

/*
 * What a lost block looks like from outside: 128 MiB go through the cache, by
 * each of the two ways in which a block is freed, and memory is as it was. No
 * checker of the kernel's sees a page that nobody holds.
 */
static long pfrag_test_free_pages(void)
{
	struct sysinfo si;

	si_meminfo(&si);
	return si.freeram;
}

static void pfrag_test_memory_comes_back(struct kunit *test)
{
	long before = pfrag_test_free_pages();
	struct pfrag_cache nc;
	unsigned int i;
	char *va;

	pfrag_cache_init(&nc);
	for (i = 0; i < 4000; i++) {
		va = pfrag_alloc(&nc, 20000, GFP_KERNEL);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
		if (i % 2)
			pfrag_free(va);
		pfrag_cache_drain(&nc);
		if (i % 2 == 0)
			pfrag_free(va);
		cond_resched();
	}
	/* Others allocate too; a way that loses blocks would miss 16000 pages. */
	KUNIT_EXPECT_LE(test, before - pfrag_test_free_pages(), 2000L);

	/* And by each way in which an allocation can fail. */
	for (i = 0; i < 4000; i++) {
		pfrag_test_fail_visits(1, 1 + i % 2);
		va = pfrag_alloc(&nc, 4097, GFP_KERNEL);
		if (va)
			pfrag_free(va);
		KUNIT_EXPECT_EQ(test, !va, i % 2 == 1);
		pfrag_cache_drain(&nc);
		cond_resched();
	}
	KUNIT_EXPECT_LE(test, before - pfrag_test_free_pages(), 2000L);
}

#include "pfrag_test_many.h"

static struct kunit_case pfrag_test_cases[] = {
	KUNIT_CASE(pfrag_test_layout),
	KUNIT_CASE(pfrag_test_drain_any_state),
	KUNIT_CASE(pfrag_test_bad_size),
	KUNIT_CASE(pfrag_test_bad_align),
	KUNIT_CASE(pfrag_test_sequence),
	KUNIT_CASE(pfrag_test_one_byte),
	KUNIT_CASE(pfrag_test_align_address),
	KUNIT_CASE(pfrag_test_align_at_end),
	KUNIT_CASE(pfrag_test_large),
	KUNIT_CASE(pfrag_test_order0_only),
	KUNIT_CASE(pfrag_test_fallback),
	KUNIT_CASE(pfrag_test_no_memory),
	KUNIT_CASE(pfrag_test_nth_visit),
	KUNIT_CASE(pfrag_test_restart),
	KUNIT_CASE(pfrag_test_foreign_reference),
	KUNIT_CASE(pfrag_test_pfmemalloc),
	KUNIT_CASE(pfrag_test_drain_with_fragments),
	KUNIT_CASE(pfrag_test_zero),
	KUNIT_CASE(pfrag_test_gfp_bits),
	KUNIT_CASE(pfrag_test_memory_comes_back),
	KUNIT_CASE(pfrag_test_any_context),
	KUNIT_CASE(pfrag_test_parallel),
	KUNIT_CASE(pfrag_test_random_calls),
	KUNIT_CASE(pfrag_test_sweep_hooks),
#ifdef CONFIG_FAIL_PAGE_ALLOC
	KUNIT_CASE(pfrag_test_sweep_fail_page_alloc),
#endif
	{}
};

static struct kunit_suite pfrag_test_suite = {
	.name = "pfrag",
	.init = pfrag_test_init_case,
	.exit = pfrag_test_exit_case,
	.test_cases = pfrag_test_cases,
};

pfrag_ktest_module(pfrag_test_suite);
MODULE_DESCRIPTION("Tests of pfrag; loading runs them");
MODULE_AUTHOR("The pfrag developers");
MODULE_VERSION(PFRAG_VERSION);
MODULE_LICENSE("GPL");
pfrag_import_namespace();
