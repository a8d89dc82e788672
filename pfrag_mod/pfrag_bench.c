// SPDX-License-Identifier: GPL-2.0
/*
 * The benchmark: contestants take turns round by round, on threads pinned to
 * CPUs. It knows no allocator by name; pfrag_contest.h does.
 *
 *	pfrag_bench_job.h	one contestant in one round
 *	pfrag_bench_run.h	the rounds and contestants of one description
 *	pfrag_bench_debugfs.h	descriptions and results through debugfs
 *	here			who takes part; the run that insmod makes
 *
 * Loaded with test_push_cpu and test_pop_cpu it makes one run of `pushpop` and does
 * not stay loaded, so that "perf stat -r 100 -- insmod .." works. Loaded without, it
 * waits for descriptions.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cache.h>
#include <linux/ctype.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/moduleparam.h>
#include <linux/mutex.h>

#include "pfrag_bench.h"
#include "pfrag_compat.h"
#include "pfrag_internal.h"

static DEFINE_MUTEX(pfrag_bench_ops_lock);
static LIST_HEAD(pfrag_bench_ops_list);

static struct pfrag_bench_ops *pfrag_bench_find(const char *workload,
						const char *name)
{
	struct pfrag_bench_ops *ops;

	list_for_each_entry(ops, &pfrag_bench_ops_list, list)
		if (!strcmp(ops->workload, workload) &&
		    (!name || !strcmp(ops->name, name)))
			return ops;
	return NULL;
}

/* A name stands in JSON, in a list with commas and in a line of words. */
static bool pfrag_bench_name_valid(const char *name)
{
	size_t i;

	if (!name)
		return false;
	for (i = 0; name[i]; i++)
		if (!isalnum(name[i]) && name[i] != '_')
			return false;
	return i && i < PFRAG_BENCH_NAME_LEN;
}

static bool pfrag_bench_ops_valid(const struct pfrag_bench_ops *ops)
{
	unsigned int i;

	if (!pfrag_bench_name_valid(ops->workload) ||
	    !pfrag_bench_name_valid(ops->name) ||
	    !pfrag_bench_name_valid(ops->per) ||
	    (ops->twin && !pfrag_bench_name_valid(ops->twin)))
		return false;
	if (!ops->owner || !ops->setup || !ops->cleanup || !ops->nr_threads ||
	    ops->nr_threads > PFRAG_BENCH_MAX_THREADS)
		return false;
	for (i = 0; i < ops->nr_threads; i++)
		if (!ops->loop[i])
			return false;
	return true;
}

/* All contestants of a workload have as many threads: they get the same CPUs. */
static int pfrag_bench_ops_add(struct pfrag_bench_ops *ops)
{
	const struct pfrag_bench_ops *other;

	if (!pfrag_bench_ops_valid(ops))
		return -EINVAL;
	other = pfrag_bench_find(ops->workload, NULL);
	if (other && other->nr_threads != ops->nr_threads)
		return -EINVAL;
	if (pfrag_bench_find(ops->workload, ops->name))
		return -EEXIST;
	list_add_tail(&ops->list, &pfrag_bench_ops_list);
	return 0;
}

int pfrag_bench_register(struct pfrag_bench_ops *ops, unsigned int nr)
{
	unsigned int i;
	int err;

	mutex_lock(&pfrag_bench_ops_lock);
	for (i = 0; i < nr; i++) {
		err = pfrag_bench_ops_add(&ops[i]);
		if (err)
			goto err_remove;
	}
	mutex_unlock(&pfrag_bench_ops_lock);
	return 0;

err_remove:
	pr_err("contestant %u of %u (%s) is %s\n", i + 1, nr,
	       ops[i].name ?: "no name",
	       err == -EEXIST ? "registered already" : "incomplete");
	while (i--)
		list_del(&ops[i].list);
	mutex_unlock(&pfrag_bench_ops_lock);
	return err;
}
pfrag_export_symbol(pfrag_bench_register);

void pfrag_bench_unregister(struct pfrag_bench_ops *ops, unsigned int nr)
{
	mutex_lock(&pfrag_bench_ops_lock);
	while (nr--)
		list_del(&ops[nr].list);
	mutex_unlock(&pfrag_bench_ops_lock);
}
pfrag_export_symbol(pfrag_bench_unregister);

#include "pfrag_bench_debugfs.h"
#include "pfrag_bench_job.h"
#include "pfrag_bench_run.h"
#include "pfrag_contest.h"

/*
 * Parameters of the run that insmod makes. A number out of range is refused while
 * the command line is read, so nothing has been set up that could be left behind.
 */
struct pfrag_bench_arg {
	const char *name;
	long long min;
	long long max;
	u32 value;
	bool given;
};

static int pfrag_bench_arg_set(const char *val, const struct kernel_param *kp)
{
	struct pfrag_bench_arg *arg = kp->arg;
	long long number;

	if (kstrtoll(val, 0, &number) || number < arg->min || number > arg->max) {
		pr_err("%s: \"%s\" is not a number from %lld to %lld\n",
		       arg->name, val, arg->min, arg->max);
		return -EINVAL;
	}
	arg->value = number;
	arg->given = true;
	return 0;
}

static int pfrag_bench_arg_get(char *buf, const struct kernel_param *kp)
{
	const struct pfrag_bench_arg *arg = kp->arg;

	return arg->given ? sprintf(buf, "%u\n", arg->value) :
			    sprintf(buf, "\n");
}

static const struct kernel_param_ops pfrag_bench_arg_ops = {
	.set = pfrag_bench_arg_set,
	.get = pfrag_bench_arg_get,
};

#define PFRAG_BENCH_ARG(_name, _default, _min, _max)			\
	static struct pfrag_bench_arg pfrag_bench_arg_##_name = {	\
		.name = #_name, .value = _default,			\
		.min = _min, .max = _max,				\
	};								\
	module_param_cb(_name, &pfrag_bench_arg_ops,			\
			&pfrag_bench_arg_##_name, 0444)

PFRAG_BENCH_ARG(test_push_cpu, 0, 0, INT_MAX);
MODULE_PARM_DESC(test_push_cpu, "CPU that allocates and pushes");
PFRAG_BENCH_ARG(test_pop_cpu, 0, 0, INT_MAX);
MODULE_PARM_DESC(test_pop_cpu, "CPU that pops and frees; may be the same");
PFRAG_BENCH_ARG(test_align, 0, 0, 1);
MODULE_PARM_DESC(test_align, "1: align each fragment to a cache line (default 0)");
PFRAG_BENCH_ARG(test_alloc_len, 2048, 1, 32768);
MODULE_PARM_DESC(test_alloc_len, "Bytes of a fragment, 1 to 32768 (default 2048)");
PFRAG_BENCH_ARG(nr_test, 2000000, 1, U32_MAX);
MODULE_PARM_DESC(nr_test, "Fragments for each contestant (default 2000000)");

static char *pfrag_bench_arg_contestants = "noop,pfrag,page_frag";
module_param_named(test_contestants, pfrag_bench_arg_contestants, charp, 0444);
MODULE_PARM_DESC(test_contestants, "Who takes part, in turn (default noop,pfrag,page_frag)");

static void pfrag_bench_report(const struct pfrag_bench_run *run)
{
	const struct pfrag_bench_params *params = &run->params;
	unsigned int i;
	u64 tenths;

	for (i = 0; i < run->nr_results; i++) {
		const struct pfrag_bench_result *result = &run->results[i];
		const char *name = run->contestants[result->contestant].name;

		if (result->absent) {
			pr_info("run %u: %s: absent, this kernel lacks it\n",
				run->number, name);
			continue;
		}
		if (result->error) {
			pr_err("run %u: %s: failed with error %d, %llu of %u pushed, %llu popped\n",
			       run->number, name, result->error, result->done[0],
			       params->nr, result->done[1]);
			continue;
		}
		tenths = div_u64(result->ns * 10, params->nr);
		pr_info("run %u: %s: %u fragments of %u bytes%s in %llu ns, %llu.%llu ns per fragment\n",
			run->number, name, params->nr, params->size,
			params->align ? ", aligned," : "", result->ns,
			div_u64(tenths, 10), tenths - 10 * div_u64(tenths, 10));
	}
}

/* -EAGAIN is how users of the kernel's own test know a run that went well. */
static int pfrag_bench_one_shot(void)
{
	struct pfrag_bench_run *run;
	char *contestants;
	int err;

	err = pfrag_bench_check_cpu("test_push_cpu",
				    pfrag_bench_arg_test_push_cpu.value);
	if (err)
		return err;
	err = pfrag_bench_check_cpu("test_pop_cpu",
				    pfrag_bench_arg_test_pop_cpu.value);
	if (err)
		return err;

	run = pfrag_bench_run_create("pushpop");
	contestants = kstrdup(pfrag_bench_arg_contestants, GFP_KERNEL);
	if (!run || !contestants) {
		pr_err("no memory for a run\n");
		err = -ENOMEM;
		goto out;
	}
	run->params.size = pfrag_bench_arg_test_alloc_len.value;
	run->params.nr = pfrag_bench_arg_nr_test.value;
	run->params.align = pfrag_bench_arg_test_align.value ? SMP_CACHE_BYTES : 0;
	run->params.cpus[0] = pfrag_bench_arg_test_push_cpu.value;
	run->params.cpus[1] = pfrag_bench_arg_test_pop_cpu.value;
	run->params.nr_cpus = 2;

	err = pfrag_bench_choose(run, contestants);
	if (!err)
		err = pfrag_bench_prepare(run);
	if (!err) {
		err = pfrag_bench_execute(run);
		pfrag_bench_report(run);
	}
out:
	kfree(contestants);
	pfrag_bench_run_destroy(run);
	return err ?: -EAGAIN;
}

static int __init pfrag_bench_init(void)
{
	bool push = pfrag_bench_arg_test_push_cpu.given;
	bool pop = pfrag_bench_arg_test_pop_cpu.given;
	int err;

	if (push != pop) {
		pr_err("%s: missing, %s is given\n",
		       push ? "test_pop_cpu" : "test_push_cpu",
		       push ? "test_push_cpu" : "test_pop_cpu");
		return -EINVAL;
	}

	err = pfrag_bench_register(pfrag_contest_ops,
				   ARRAY_SIZE(pfrag_contest_ops));
	if (err)
		return err;
	err = push ? pfrag_bench_one_shot() : pfrag_bench_debugfs_init();
	if (err)
		pfrag_bench_unregister(pfrag_contest_ops,
				       ARRAY_SIZE(pfrag_contest_ops));
	return err;
}

static void __exit pfrag_bench_exit(void)
{
	pfrag_bench_debugfs_exit();
	pfrag_bench_unregister(pfrag_contest_ops, ARRAY_SIZE(pfrag_contest_ops));
}

module_init(pfrag_bench_init);
module_exit(pfrag_bench_exit);
MODULE_DESCRIPTION("Benchmark of page fragment allocators, ours against in-tree");
MODULE_AUTHOR("The pfrag developers");
MODULE_VERSION(PFRAG_VERSION);
MODULE_LICENSE("GPL");
pfrag_import_namespace();
