/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fragment workloads and their contestants. Included by pfrag_bench.c alone.
 *
 *	pushpop	one thread allocates and pushes into a ring, another pops and frees
 *	local	one thread frees the oldest of `depth` fragments and allocates the next
 *
 * Each loop is written once, as an always-inline template over two constant
 * functions: what a contestant's loop calls is what a driver would call, inlined
 * where the allocator is inline and called where it is not.
 */
#ifndef PFRAG_CONTEST_H
#define PFRAG_CONTEST_H

#include <linux/cache.h>
#include <linux/mm.h>
#include <linux/ptr_ring.h>
#include <linux/skbuff.h>
#include <linux/slab.h>

#include "pfrag.h"
#include "pfrag_bench.h"
#include "pfrag_compat.h"

/* As in the kernel's own test of page_frag. */
#define PFRAG_CONTEST_RING_SIZE	512

/* As a driver refills its ring: where it must not sleep. */
#define PFRAG_CONTEST_GFP	GFP_ATOMIC

/* Each allocator under test, in the state of one job. */
union pfrag_contest_cache {
	struct pfrag_cache pfrag;
	struct page_frag_cache page_frag;
};

struct pfrag_contest {
	union pfrag_contest_cache cache;
	u32 pos;			/* local: the oldest slot */
	void **slots;			/* local: `depth` of them */
	struct ptr_ring ring;		/* pushpop */
};

/*
 * The allocators: one function to allocate, one to free, one to drain. An
 * alignment of 0 asks for the plain call, and is a constant in each loop.
 */
static __always_inline void *
pfrag_contest_noop_alloc(union pfrag_contest_cache *c, u32 size, u32 align)
{
	void *va = c;

	/* Nothing is known of the pointer, so nothing is optimised away. */
	OPTIMIZER_HIDE_VAR(va);
	return va;
}

static __always_inline void pfrag_contest_noop_free(void *va)
{
	OPTIMIZER_HIDE_VAR(va);
}

static void pfrag_contest_noop_drain(union pfrag_contest_cache *c)
{
}

static __always_inline void *
pfrag_contest_pfrag_alloc(union pfrag_contest_cache *c, u32 size, u32 align)
{
	if (align)
		return pfrag_alloc_align(&c->pfrag, size, PFRAG_CONTEST_GFP,
					 align);
	return pfrag_alloc(&c->pfrag, size, PFRAG_CONTEST_GFP);
}

static __always_inline void pfrag_contest_pfrag_free(void *va)
{
	pfrag_free(va);
}

static void pfrag_contest_pfrag_drain(union pfrag_contest_cache *c)
{
	pfrag_cache_drain(&c->pfrag);
}

static __always_inline void *
pfrag_contest_page_frag_alloc(union pfrag_contest_cache *c, u32 size, u32 align)
{
	if (align)
		return pfrag_compat_page_frag_alloc_align(&c->page_frag, size,
							  PFRAG_CONTEST_GFP,
							  align);
	return page_frag_alloc(&c->page_frag, size, PFRAG_CONTEST_GFP);
}

static __always_inline void pfrag_contest_page_frag_free(void *va)
{
	page_frag_free(va);
}

static void pfrag_contest_page_frag_drain(union pfrag_contest_cache *c)
{
	pfrag_compat_page_frag_drain(&c->page_frag);
}

/* The loops. */
static __always_inline u64
pfrag_contest_push(struct pfrag_bench_thread *thread, u64 n, u32 align,
		   void *(*alloc)(union pfrag_contest_cache *, u32, u32),
		   void (*release)(void *))
{
	struct pfrag_contest *c = thread->job->priv;
	u32 size = thread->job->params->size;
	u64 i;

	for (i = 0; i < n; i++) {
		void *va;

		/* Nobody else produces: what is free now is free below. */
		if (__ptr_ring_full(&c->ring)) {
			pfrag_bench_stalls(thread, PFRAG_BENCH_STALL_PEER);
			break;
		}
		va = alloc(&c->cache, size, align);
		if (unlikely(!va)) {
			pfrag_bench_stalls(thread, PFRAG_BENCH_STALL_MEMORY);
			break;
		}
		if (unlikely(__ptr_ring_produce(&c->ring, va))) {
			release(va);
			pfrag_bench_stalls(thread, PFRAG_BENCH_STALL_PEER);
			break;
		}
	}
	return i;
}

static __always_inline u64
pfrag_contest_pop(struct pfrag_bench_thread *thread, u64 n,
		  void (*release)(void *))
{
	struct pfrag_contest *c = thread->job->priv;
	u64 i;

	for (i = 0; i < n; i++) {
		void *va = __ptr_ring_consume(&c->ring);

		if (!va) {
			pfrag_bench_stalls(thread, PFRAG_BENCH_STALL_PEER);
			break;
		}
		release(va);
	}
	return i;
}

static __always_inline u64
pfrag_contest_local(struct pfrag_bench_thread *thread, u64 n, u32 align,
		    void *(*alloc)(union pfrag_contest_cache *, u32, u32),
		    void (*release)(void *))
{
	struct pfrag_contest *c = thread->job->priv;
	u32 depth = thread->job->params->depth;
	u32 size = thread->job->params->size;
	void **slots = c->slots;
	u32 pos = c->pos;
	void *va;
	u64 i;

	/* One alive: nothing to keep, and so nothing but the allocator. */
	if (depth == 1) {
		for (i = 0; i < n; i++) {
			va = alloc(&c->cache, size, align);
			if (unlikely(!va))
				goto stalled;
			release(va);
		}
		return i;
	}

	for (i = 0; i < n; i++) {
		if (likely(slots[pos]))
			release(slots[pos]);
		va = alloc(&c->cache, size, align);
		slots[pos] = va;
		if (unlikely(!va))
			goto stalled;
		if (++pos == depth)
			pos = 0;
	}
	c->pos = pos;
	return i;

stalled:
	c->pos = pos;
	pfrag_bench_stalls(thread, PFRAG_BENCH_STALL_MEMORY);
	return i;
}

/* The state of a job. */
static struct pfrag_contest *pfrag_contest_create(void)
{
	if (pfrag_bench_step_fails())
		return NULL;
	return kzalloc(sizeof(struct pfrag_contest), GFP_KERNEL);
}

static int pfrag_contest_pushpop_setup(struct pfrag_bench_job *job)
{
	struct pfrag_contest *c = pfrag_contest_create();
	int err;

	if (!c)
		return -ENOMEM;
	err = pfrag_bench_step_fails() ? -ENOMEM :
		ptr_ring_init(&c->ring, PFRAG_CONTEST_RING_SIZE, GFP_KERNEL);
	if (err) {
		kfree(c);
		return err;
	}
	job->priv = c;
	return 0;
}

static int pfrag_contest_local_setup(struct pfrag_bench_job *job)
{
	struct pfrag_contest *c = pfrag_contest_create();

	if (!c)
		return -ENOMEM;
	if (!pfrag_bench_step_fails())
		c->slots = kvcalloc(job->params->depth, sizeof(*c->slots),
				    GFP_KERNEL);
	if (!c->slots) {
		kfree(c);
		return -ENOMEM;
	}
	job->priv = c;
	return 0;
}

static __always_inline void
pfrag_contest_cleanup(struct pfrag_bench_job *job, void (*release)(void *),
		      void (*drain)(union pfrag_contest_cache *))
{
	struct pfrag_contest *c = job->priv;
	void *va;
	u32 i;

	if (c->slots) {
		for (i = 0; i < job->params->depth; i++)
			if (c->slots[i])
				release(c->slots[i]);
		kvfree(c->slots);
	} else {
		while ((va = __ptr_ring_consume(&c->ring)))
			release(va);
		ptr_ring_cleanup(&c->ring, NULL);
	}
	drain(&c->cache);
	kfree(c);
}

/*
 * The loops of a contestant, by its name. It must be a macro, for the templates
 * to be built with constant functions in them. A contestant then needs one line
 * for each workload in the table at the end: its name, its in-tree twin, and
 * whether it lacks an aligned call.
 */
#define PFRAG_CONTEST_LOOPS(_name)					\
static u64 pfrag_contest_##_name##_push(struct pfrag_bench_thread *t, u64 n) \
{									\
	u32 align = t->job->params->align;				\
									\
	if (align)							\
		return pfrag_contest_push(t, n, align,			\
					  pfrag_contest_##_name##_alloc, \
					  pfrag_contest_##_name##_free); \
	return pfrag_contest_push(t, n, 0,				\
				  pfrag_contest_##_name##_alloc,	\
				  pfrag_contest_##_name##_free);	\
}									\
									\
static u64 pfrag_contest_##_name##_pop(struct pfrag_bench_thread *t, u64 n) \
{									\
	return pfrag_contest_pop(t, n, pfrag_contest_##_name##_free);	\
}									\
									\
static u64 pfrag_contest_##_name##_local(struct pfrag_bench_thread *t, u64 n) \
{									\
	u32 align = t->job->params->align;				\
									\
	if (align)							\
		return pfrag_contest_local(t, n, align,			\
					   pfrag_contest_##_name##_alloc, \
					   pfrag_contest_##_name##_free); \
	return pfrag_contest_local(t, n, 0,				\
				   pfrag_contest_##_name##_alloc,	\
				   pfrag_contest_##_name##_free);	\
}									\
									\
static void pfrag_contest_##_name##_cleanup(struct pfrag_bench_job *job) \
{									\
	pfrag_contest_cleanup(job, pfrag_contest_##_name##_free,	\
			      pfrag_contest_##_name##_drain);		\
}

#define PFRAG_CONTEST_PUSHPOP(_name, _twin, _no_align)			\
	{								\
		.workload = "pushpop", .name = #_name, .twin = _twin,	\
		.per = "fragment", .owner = THIS_MODULE,		\
		.nr_threads = 2, .no_align = _no_align,			\
		.setup = pfrag_contest_pushpop_setup,			\
		.cleanup = pfrag_contest_##_name##_cleanup,		\
		.loop = { pfrag_contest_##_name##_push,			\
			  pfrag_contest_##_name##_pop },		\
	}

#define PFRAG_CONTEST_LOCAL(_name, _as, _twin, _no_align)		\
	{								\
		.workload = "local", .name = #_as, .twin = _twin,	\
		.per = "fragment", .owner = THIS_MODULE,		\
		.nr_threads = 1, .no_align = _no_align,			\
		.setup = pfrag_contest_local_setup,			\
		.cleanup = pfrag_contest_##_name##_cleanup,		\
		.loop = { pfrag_contest_##_name##_local },		\
	}

PFRAG_CONTEST_LOOPS(noop)
PFRAG_CONTEST_LOOPS(pfrag)
PFRAG_CONTEST_LOOPS(page_frag)

static struct pfrag_bench_ops pfrag_contest_ops[] = {
	PFRAG_CONTEST_PUSHPOP(noop, NULL, false),
	PFRAG_CONTEST_PUSHPOP(pfrag, "page_frag", false),
	PFRAG_CONTEST_PUSHPOP(page_frag, NULL, !PFRAG_COMPAT_PAGE_FRAG_ALIGNS),
	PFRAG_CONTEST_LOCAL(noop, noop, NULL, false),
	PFRAG_CONTEST_LOCAL(pfrag, pfrag, "page_frag", false),
	PFRAG_CONTEST_LOCAL(page_frag, page_frag, NULL,
			    !PFRAG_COMPAT_PAGE_FRAG_ALIGNS),
	/* The same code once more: what the rig takes for a difference. */
	PFRAG_CONTEST_LOCAL(page_frag, page_frag_aa, "page_frag",
			    !PFRAG_COMPAT_PAGE_FRAG_ALIGNS),
};

#endif /* PFRAG_CONTEST_H */
