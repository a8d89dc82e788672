/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Cases that are about many calls and not about one promise: from any context, from
 * two CPUs at once, in random order, and with a failure at each place in turn.
 * Included by pfrag_test.c alone.
 */
#ifndef PFRAG_TEST_MANY_H
#define PFRAG_TEST_MANY_H

#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/mm.h>
#include <linux/prandom.h>
#include <linux/ptr_ring.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/string.h>

/* Allocating and freeing with interrupts off, and in a hard interrupt. */
#define PFRAG_TEST_CROSS	300

struct pfrag_test_cross {
	struct pfrag_cache nc;
	void *va[PFRAG_TEST_CROSS];
	unsigned int nulls;
};

static void pfrag_test_cross_alloc(void *data)
{
	struct pfrag_test_cross *cross = data;
	unsigned int i;

	for (i = 0; i < PFRAG_TEST_CROSS; i++) {
		cross->va[i] = pfrag_alloc(&cross->nc, 1024, GFP_ATOMIC);
		if (!cross->va[i])
			cross->nulls++;
	}
}

static void pfrag_test_cross_free(void *data)
{
	struct pfrag_test_cross *cross = data;
	unsigned int i;

	for (i = 0; i < PFRAG_TEST_CROSS; i++)
		if (cross->va[i])
			pfrag_free(cross->va[i]);
}

static void pfrag_test_any_context(struct kunit *test)
{
	struct pfrag_test_cross *cross = kzalloc(sizeof(*cross), GFP_KERNEL);
	unsigned long flags;
	unsigned int cpu;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, cross);
	for_each_online_cpu(cpu) {
		local_irq_save(flags);
		pfrag_test_cross_alloc(cross);
		local_irq_restore(flags);
		smp_call_function_single(cpu, pfrag_test_cross_free, cross, 1);

		smp_call_function_single(cpu, pfrag_test_cross_alloc, cross, 1);
		local_irq_save(flags);
		pfrag_test_cross_free(cross);
		local_irq_restore(flags);
	}
	KUNIT_EXPECT_EQ(test, cross->nulls, 0U);
	KUNIT_EXPECT_EQ(test,
			(u32)page_count(pfrag_test_head(cross->va[299])),
			cross->nc.bias);
	pfrag_cache_drain(&cross->nc);
	kfree(cross);
}

/* One CPU allocates and fills, another checks and frees. */
#define PFRAG_TEST_PARALLEL	100000

struct pfrag_test_parallel {
	struct ptr_ring ring;
	unsigned int bad;
};

/* The fragment says its own size and address, at both of its ends. */
static void pfrag_test_mark(void *va, size_t size)
{
	memset(va, (unsigned long)va >> 5, size);
	*(u64 *)va = (unsigned long)va ^ size;
}

static bool pfrag_test_marked(void *va)
{
	size_t size = *(u64 *)va ^ (unsigned long)va;

	return size >= 16 && size <= 1024 &&
	       !memchr_inv(va + 8, (unsigned long)va >> 5 & 0xff, size - 8);
}

static int pfrag_test_parallel_free(void *data)
{
	struct pfrag_test_parallel *p = data;
	unsigned int n = 0;
	void *va;

	while (n < PFRAG_TEST_PARALLEL) {
		va = __ptr_ring_consume(&p->ring);
		if (!va) {
			schedule_timeout_idle(1);
			continue;
		}
		if (!pfrag_test_marked(va))
			p->bad++;
		pfrag_free(va);
		n++;
	}
	while (!kthread_should_stop())
		schedule_timeout_idle(1);
	return 0;
}

static void pfrag_test_parallel(struct kunit *test)
{
	struct pfrag_test_parallel *p = kzalloc(sizeof(*p), GFP_KERNEL);
	struct task_struct *task;
	struct pfrag_cache nc;
	struct rnd_state rnd;
	unsigned int n = 0;
	size_t size;
	void *va;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, p);
	KUNIT_EXPECT_EQ(test, ptr_ring_init(&p->ring, 256, GFP_KERNEL), 0);
	if (pfrag_ktest_failed(test))
		goto out;
	task = kthread_run(pfrag_test_parallel_free, p, "pfrag_test");
	if (IS_ERR(task)) {
		KUNIT_EXPECT_FALSE(test, IS_ERR(task));
		goto out_ring;
	}

	pfrag_cache_init(&nc);
	prandom_seed_state(&rnd, pfrag_test_seed);
	while (n < PFRAG_TEST_PARALLEL) {
		size = 16 + prandom_u32_state(&rnd) % 126 * 8;
		va = pfrag_alloc_align(&nc, size, GFP_KERNEL, 8);
		if (!va) {
			cond_resched();
			continue;
		}
		pfrag_test_mark(va, size);
		while (__ptr_ring_produce(&p->ring, va))
			schedule_timeout_idle(1);
		n++;
		/* Drained at many points, with fragments in flight. */
		if (n % 997 == 0)
			pfrag_cache_drain(&nc);
	}
	kthread_stop(task);
	KUNIT_EXPECT_EQ(test, p->bad, 0U);
	pfrag_cache_drain(&nc);
out_ring:
	ptr_ring_cleanup(&p->ring, NULL);
out:
	kfree(p);
}

/*
 * Random calls against a list of the fragments that live: inside their block, not
 * overlapping, aligned, their content intact, and the counts exact after each step.
 */
#define PFRAG_TEST_LIVE	200

/*
 * Behind each fragment: KASAN knows pages, and has no red zone between two fragments
 * of one block.
 */
#define PFRAG_TEST_RED_ZONE	16
#define PFRAG_TEST_RED_FILL	0xed

struct pfrag_test_shadow {
	unsigned char *va;
	size_t size;		/* without the red zone */
	unsigned char fill;
};

static bool pfrag_test_intact(const struct pfrag_test_shadow *f)
{
	return !memchr_inv(f->va, f->fill, f->size) &&
	       !memchr_inv(f->va + f->size, PFRAG_TEST_RED_FILL,
			   PFRAG_TEST_RED_ZONE);
}

struct pfrag_test_random {
	struct pfrag_cache nc;
	struct rnd_state rnd;
	struct pfrag_test_shadow live[PFRAG_TEST_LIVE];
	unsigned int nr_live;
	unsigned int nulls;
	unsigned int allocs;
};

static u32 pfrag_test_below(struct pfrag_test_random *r, u32 limit)
{
	return prandom_u32_state(&r->rnd) % limit;
}

/* The count of a block: a reference for each fragment, and the cache's. */
static void pfrag_test_check_count(struct kunit *test,
				   struct pfrag_test_random *r, struct page *head)
{
	u32 expected = 0;
	unsigned int i;

	for (i = 0; i < r->nr_live; i++)
		if (pfrag_test_head(r->live[i].va) == head)
			expected++;
	if (r->nc.block &&
	    pfrag_test_head((void *)pfrag_block_end(r->nc.block) - 1) == head)
		expected += r->nc.bias;
	KUNIT_EXPECT_EQ(test, (u32)page_count(head), expected);
}

static void pfrag_test_check_new(struct kunit *test, struct pfrag_test_random *r,
				 const struct pfrag_test_shadow *new)
{
	struct page *head = pfrag_test_head(new->va);
	size_t size = new->size + PFRAG_TEST_RED_ZONE;
	unsigned char *start = page_address(head);
	unsigned int i;

	KUNIT_EXPECT_TRUE(test, new->va + size <=
				start + (4096UL << compound_order(head)));
	for (i = 0; i < r->nr_live; i++) {
		const struct pfrag_test_shadow *f = &r->live[i];
		size_t f_size = f->size + PFRAG_TEST_RED_ZONE;
		bool before = new->va + size <= f->va;
		bool behind = f->va + f_size <= new->va;

		KUNIT_EXPECT_TRUE(test, before || behind);
	}
}

/* Mostly small, now and then a whole block. */
static const u32 pfrag_test_limits[] = {
	64, 64, 300, 300, 2000, 2000, 5000, 32768 - PFRAG_TEST_RED_ZONE,
};

static void pfrag_test_random_alloc(struct kunit *test,
				    struct pfrag_test_random *r)
{
	struct pfrag_test_shadow new;
	size_t align;
	u32 limit;

	limit = pfrag_test_limits[pfrag_test_below(r, 8)];
	new.size = 1 + pfrag_test_below(r, limit);
	align = (size_t)1 << pfrag_test_below(r, pfrag_test_below(r, 8) ? 8 : 16);
	new.fill = prandom_u32_state(&r->rnd);
	new.va = pfrag_alloc_align(&r->nc, new.size + PFRAG_TEST_RED_ZONE,
				   GFP_KERNEL, align);
	if (!new.va) {
		r->nulls++;
		return;
	}
	r->allocs++;
	KUNIT_EXPECT_EQ(test, (unsigned long)new.va & (align - 1), 0UL);
	pfrag_test_check_new(test, r, &new);
	memset(new.va, new.fill, new.size);
	memset(new.va + new.size, PFRAG_TEST_RED_FILL, PFRAG_TEST_RED_ZONE);
	r->live[r->nr_live++] = new;
	pfrag_test_check_count(test, r, pfrag_test_head(new.va));
}

static void pfrag_test_random_free(struct kunit *test,
				   struct pfrag_test_random *r)
{
	unsigned int i = pfrag_test_below(r, r->nr_live);
	struct pfrag_test_shadow old = r->live[i];
	struct page *head = pfrag_test_head(old.va);
	bool last;

	KUNIT_EXPECT_TRUE(test, pfrag_test_intact(&old));
	last = page_count(head) == 1;
	r->live[i] = r->live[--r->nr_live];
	pfrag_free(old.va + pfrag_test_below(r, old.size));
	if (!last)
		pfrag_test_check_count(test, r, head);
}

static void pfrag_test_random_step(struct kunit *test,
				   struct pfrag_test_random *r)
{
	switch (pfrag_test_below(r, 1000)) {
	case 0:
		pfrag_cache_drain(&r->nc);
		KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 0L);
		break;
	case 1 ... 3:
		pfrag_test_fail_visits(1 + pfrag_test_below(r, 3),
				       1 + pfrag_test_below(r, 3));
		break;
	case 4 ... 7:
		pfrag_hooks.order0_only = pfrag_test_below(r, 2);
		break;
	case 8 ... 11:
		pfrag_hooks.pfmemalloc = pfrag_test_below(r, 2);
		break;
	case 12 ... 505:
		if (r->nr_live < PFRAG_TEST_LIVE) {
			pfrag_test_random_alloc(test, r);
			break;
		}
		fallthrough;
	default:
		if (r->nr_live)
			pfrag_test_random_free(test, r);
	}
}

static void pfrag_test_random_calls(struct kunit *test)
{
	struct pfrag_test_random *r = kzalloc(sizeof(*r), GFP_KERNEL);
	unsigned int i;

	KUNIT_ASSERT_NOT_ERR_OR_NULL(test, r);
	prandom_seed_state(&r->rnd, pfrag_test_seed);
	for (i = 0; i < pfrag_test_steps && !pfrag_ktest_failed(test); i++) {
		pfrag_test_random_step(test, r);
		cond_resched();
	}
	while (r->nr_live)
		pfrag_test_random_free(test, r);
	pfrag_cache_drain(&r->nc);
	pr_info("    # seed %u: %u steps, %u fragments, %u times no memory\n",
		pfrag_test_seed, i, r->allocs, r->nulls);
	/* The walk must have seen both ends of the road. */
	KUNIT_EXPECT_LE(test, 1U, r->nulls);
	KUNIT_EXPECT_LE(test, 1U, r->allocs);
	kfree(r);
}

/*
 * Failures, one place after the other: a walk that visits the page allocator in every
 * way there is, again and again, with the 1st, 2nd, 3rd … visit failing, until the
 * walk ends before the failure comes.
 */
struct pfrag_test_fault {
	const char *name;
	void (*arm)(u32 nth);
	bool (*struck)(void);		/* and disarms */
	unsigned int max_nulls;		/* of one failure */
};

static unsigned int pfrag_test_walk(struct kunit *test)
{
	static const struct {
		size_t size;
		size_t align;
	} pfrag_test_stops[] = {
		{ 100, 1 }, { 32768, 1 }, { 4097, 64 }, { 30000, 1 }, { 64, 8192 },
		{ 32768, 32768 }, { 1, 1 }, { 16385, 1 }, { 16385, 1 },
	};
	void *vas[ARRAY_SIZE(pfrag_test_stops)] = {};
	struct pfrag_cache nc, before;
	unsigned int nulls = 0;
	unsigned int i;

	pfrag_cache_init(&nc);
	for (i = 0; i < ARRAY_SIZE(pfrag_test_stops); i++) {
		size_t size = pfrag_test_stops[i].size;

		before = nc;
		vas[i] = pfrag_alloc_align(&nc, size, GFP_KERNEL,
					   pfrag_test_stops[i].align);
		if (!vas[i]) {
			nulls++;
			KUNIT_EXPECT_TRUE(test, pfrag_test_same_cache(&nc, &before));
			continue;
		}
		memset(vas[i], i + 1, size);
		/* Every third goes home at once, so that blocks start again. */
		if (i % 3 == 2) {
			pfrag_free(vas[i]);
			vas[i] = NULL;
		}
	}
	for (i = 0; i < ARRAY_SIZE(pfrag_test_stops); i++) {
		if (!vas[i])
			continue;
		KUNIT_EXPECT_PTR_EQ(test, memchr_inv(vas[i], i + 1,
						     pfrag_test_stops[i].size), NULL);
		pfrag_free(vas[i]);
	}
	pfrag_cache_drain(&nc);
	KUNIT_EXPECT_EQ(test, pfrag_live_blocks(), 0L);
	return nulls;
}

static void pfrag_test_sweep(struct kunit *test,
			     const struct pfrag_test_fault *fault)
{
	unsigned int nulls;
	bool struck;
	u32 nth;

	for (nth = 1; nth < 1000; nth++) {
		fault->arm(nth);
		nulls = pfrag_test_walk(test);
		struck = fault->struck();
		KUNIT_EXPECT_LE(test, nulls, struck ? fault->max_nulls : 0);
		if (!struck)
			break;
	}
	pr_info("    # %s: %u places\n", fault->name, nth - 1);
	/* Of the nine, three find a block that can start again or has room left. */
	KUNIT_EXPECT_LE(test, 6U, nth - 1);
	KUNIT_EXPECT_NE(test, nth, 1000U);
}

/* Our own hooks: a single visit, and both visits of a refill. */
static void pfrag_test_arm_one(u32 nth)
{
	pfrag_test_fail_visits(nth, 1);
}

static bool pfrag_test_one_struck(void)
{
	bool struck = !READ_ONCE(pfrag_hooks.nth);

	pfrag_test_reset_hooks();
	return struck;
}

static void pfrag_test_arm_two(u32 nth)
{
	pfrag_test_fail_visits(nth, 2);
}

static bool pfrag_test_two_struck(void)
{
	/* The first of the two is enough. */
	bool struck = !READ_ONCE(pfrag_hooks.nth) || pfrag_hooks.times == 1;

	pfrag_test_reset_hooks();
	return struck;
}

static void pfrag_test_sweep_hooks(struct kunit *test)
{
	static const struct pfrag_test_fault pfrag_test_one = {
		.name = "a visit fails", .arm = pfrag_test_arm_one,
		.struck = pfrag_test_one_struck, .max_nulls = 0,
	};
	static const struct pfrag_test_fault pfrag_test_two = {
		.name = "two visits fail", .arm = pfrag_test_arm_two,
		.struck = pfrag_test_two_struck, .max_nulls = 1,
	};

	pfrag_test_sweep(test, &pfrag_test_one);
	pfrag_test_sweep(test, &pfrag_test_two);
}

/*
 * The kernel's fault injection, for this task alone. It needs fail_page_alloc to
 * look at sleeping allocations and single pages too (debugfs: ignore-gfp-wait N,
 * min-order 0); a kernel without it has no such case.
 */
#ifdef CONFIG_FAIL_PAGE_ALLOC
static void pfrag_test_arm_task(u32 nth)
{
	WRITE_ONCE(current->fail_nth, nth);
}

static bool pfrag_test_task_struck(void)
{
	bool struck = !READ_ONCE(current->fail_nth);

	WRITE_ONCE(current->fail_nth, 0);
	return struck;
}

static void pfrag_test_sweep_fail_page_alloc(struct kunit *test)
{
	static const struct pfrag_test_fault pfrag_test_task = {
		.name = "fail_page_alloc", .arm = pfrag_test_arm_task,
		.struck = pfrag_test_task_struck, .max_nulls = 0,
	};

	pfrag_test_sweep(test, &pfrag_test_task);
}
#endif

#endif /* PFRAG_TEST_MANY_H */
