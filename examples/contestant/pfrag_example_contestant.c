// SPDX-License-Identifier: GPL-2.0
/*
 * Your own allocator in the benchmark: here kmalloc(), beside the others in the
 * workload `local`. Load it after pfrag_bench.ko and ask for the contestant
 * `kmalloc`; docs/benchmark.md walks through it.
 */
#include <linux/module.h>
#include <linux/slab.h>

#include "pfrag_bench.h"
#include "pfrag_compat.h"

static int pfrag_example_setup(struct pfrag_bench_job *job)
{
	/* One object alive, and none between two calls: no state is needed. */
	return job->params->depth == 1 ? 0 : -EINVAL;
}

static void pfrag_example_cleanup(struct pfrag_bench_job *job)
{
}

static u64 pfrag_example_loop(struct pfrag_bench_thread *thread, u64 n)
{
	u32 size = thread->job->params->size;
	void *p;
	u64 i;

	for (i = 0; i < n; i++) {
		p = kmalloc(size, GFP_KERNEL);
		if (unlikely(!p)) {
			pfrag_bench_stalls(thread, PFRAG_BENCH_STALL_MEMORY);
			break;
		}
		/* Or the compiler drops the pair of calls. */
		OPTIMIZER_HIDE_VAR(p);
		kfree(p);
	}
	return i;
}

static struct pfrag_bench_ops pfrag_example_ops[] = {
	{
		.workload = "local",
		.name = "kmalloc",
		.twin = "page_frag",
		.per = "fragment",
		.owner = THIS_MODULE,
		.nr_threads = 1,
		.no_align = true,
		.setup = pfrag_example_setup,
		.cleanup = pfrag_example_cleanup,
		.loop = { pfrag_example_loop },
	},
};

static int __init pfrag_example_init(void)
{
	return pfrag_bench_register(pfrag_example_ops,
				    ARRAY_SIZE(pfrag_example_ops));
}

static void __exit pfrag_example_exit(void)
{
	pfrag_bench_unregister(pfrag_example_ops, ARRAY_SIZE(pfrag_example_ops));
}

module_init(pfrag_example_init);
module_exit(pfrag_example_exit);
MODULE_DESCRIPTION("Example: a contestant of one's own in pfrag's benchmark");
MODULE_AUTHOR("The pfrag developers");
MODULE_LICENSE("GPL");
pfrag_import_namespace();
