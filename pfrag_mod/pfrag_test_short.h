/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cases in which memory is short: single pages only, a visit to the page allocator
 * that fails, all of them failing. Included by pfrag_test.c alone.
 */
#ifndef PFRAG_TEST_SHORT_H
#define PFRAG_TEST_SHORT_H

/* With no memory but single pages: small ones work, larger ones are NULL. */
static void pfrag_test_order0_only(struct kunit *test)
{
	struct pfrag_cache nc, before;
	unsigned int i;
	char *first, *va, *next;

	pfrag_hooks.order0_only = true;
	pfrag_cache_init(&nc);
	first = pfrag_alloc(&nc, 100, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, first);
	KUNIT_EXPECT_EQ(test, pfrag_live_pages(), 1L);
	KUNIT_EXPECT_EQ(test, compound_order(pfrag_test_head(first)), 0U);

	before = nc;
	for (i = 0; i < ARRAY_SIZE(pfrag_test_large_sizes); i++) {
		va = pfrag_alloc(&nc, pfrag_test_large_sizes[i], GFP_KERNEL);
		KUNIT_EXPECT_PTR_EQ(test, va, NULL);
		va = pfrag_alloc_align(&nc, 100, GFP_KERNEL, 8192);
		KUNIT_EXPECT_PTR_EQ(test, va, NULL);
		KUNIT_EXPECT_TRUE(test, pfrag_test_same_cache(&nc, &before));
	}
	next = pfrag_alloc(&nc, 100, GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, next, first + 100);
	pfrag_free(next);

	/* A page holds 40 of 100 bytes. Started again while it can be … */
	pfrag_free(first);
	for (i = 0; i < 100; i++) {
		next = pfrag_alloc(&nc, 100, GFP_KERNEL);
		KUNIT_EXPECT_PTR_EQ(test, pfrag_test_head(next),
				    pfrag_test_head(first));
		pfrag_free(next);
	}
	/* … and with memory back, a large one replaces it. */
	pfrag_hooks.order0_only = false;
	va = pfrag_alloc(&nc, 32768, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 1L);
	KUNIT_EXPECT_EQ(test, pfrag_live_pages(), 8L);
	pfrag_free(va);
	pfrag_cache_drain(&nc);
}

/* The first attempt is for 32 KiB, the second for just enough. */
static void pfrag_test_fallback(struct kunit *test)
{
	static const struct {
		size_t size;
		size_t align;
		long pages;
	} pfrag_test_fallbacks[] = {
		{ 1, 1, 1 }, { 4096, 1, 1 }, { 4097, 1, 2 }, { 8193, 1, 4 },
		{ 16385, 1, 8 }, { 64, 8192, 2 }, { 32768, 32768, 8 },
	};
	struct pfrag_cache nc;
	unsigned int i;
	char *va;

	pfrag_cache_init(&nc);
	for (i = 0; i < ARRAY_SIZE(pfrag_test_fallbacks); i++) {
		size_t size = pfrag_test_fallbacks[i].size;
		size_t align = pfrag_test_fallbacks[i].align;

		pfrag_test_fail_visits(1, 1);
		va = pfrag_alloc_align(&nc, size, GFP_KERNEL,
				       align);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
		KUNIT_EXPECT_EQ(test, pfrag_live_pages(), pfrag_test_fallbacks[i].pages);
		KUNIT_EXPECT_EQ(test, (unsigned long)va & (align - 1),
				0UL);
		KUNIT_EXPECT_PTR_EQ(test, pfrag_test_head(va),
				    pfrag_test_head(va + size - 1));
		KUNIT_EXPECT_EQ(test, READ_ONCE(pfrag_hooks.nth), 0U);
		pfrag_free(va);
		pfrag_cache_drain(&nc);
	}
}

/* Both attempts fail: NULL, the cache as it was, and no harm for the next. */
static void pfrag_test_no_memory(struct kunit *test)
{
	struct pfrag_cache nc, before;
	char *va, *rest, *next;

	pfrag_cache_init(&nc);
	before = nc;
	pfrag_test_fail_visits(1, 2);
	KUNIT_EXPECT_PTR_EQ(test, pfrag_alloc(&nc, 100, GFP_KERNEL), NULL);
	KUNIT_EXPECT_TRUE(test, pfrag_test_same_cache(&nc, &before));
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 0L);

	/* What is left in a block still serves those whom it can hold. */
	va = pfrag_alloc(&nc, 32768 - 100, GFP_KERNEL);
	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va);
	before = nc;
	pfrag_test_fail_visits(1, PFRAG_HOOK_FOREVER);
	KUNIT_EXPECT_PTR_EQ(test, pfrag_alloc(&nc, 101, GFP_KERNEL), NULL);
	KUNIT_EXPECT_PTR_EQ(test, pfrag_alloc(&nc, 101, GFP_KERNEL | __GFP_ZERO),
			    NULL);
	KUNIT_EXPECT_TRUE(test, pfrag_test_same_cache(&nc, &before));
	rest = pfrag_alloc(&nc, 100, GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, rest, va + 32768 - 100);

	/* Not even an empty block needs memory to start again. */
	pfrag_free(va);
	pfrag_free(rest);
	next = pfrag_alloc(&nc, 32768, GFP_KERNEL);
	KUNIT_EXPECT_PTR_EQ(test, next, va);
	pfrag_free(next);
	pfrag_cache_drain(&nc);
}

/* The Nth visit fails, and no other. */
static void pfrag_test_nth_visit(struct kunit *test)
{
	struct pfrag_cache nc;
	unsigned int i;
	char *va[4];

	pfrag_cache_init(&nc);
	pfrag_test_fail_visits(3, 1);
	for (i = 0; i < 4; i++) {
		va[i] = pfrag_alloc(&nc, 32768 - i, GFP_KERNEL);
		KUNIT_ASSERT_NOT_ERR_OR_NULL(test, va[i]);
	}
	KUNIT_EXPECT_EQ(test, READ_ONCE(pfrag_hooks.nth), 0U);
	for (i = 0; i < 4; i++)
		pfrag_free(va[i]);
	pfrag_cache_drain(&nc);
}

#endif /* PFRAG_TEST_SHORT_H */
