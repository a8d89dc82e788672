/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A run of the benchmark: the contestants of one workload take turns, round by
 * round, so that whatever drifts hits all of them. Included by pfrag_bench.c alone.
 */
#ifndef PFRAG_BENCH_RUN_H
#define PFRAG_BENCH_RUN_H

#include <linux/cpumask.h>
#include <linux/kernel.h>
#include <linux/log2.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/slab.h>
#include <linux/string.h>

#include "pfrag_bench.h"
#include "pfrag_bench_job.h"
#include "pfrag_internal.h"

#define PFRAG_BENCH_MAX_CONTESTANTS	32
#define PFRAG_BENCH_MAX_RESULTS		8192
#define PFRAG_BENCH_LINE_LEN		640

enum pfrag_bench_state {
	PFRAG_BENCH_RUNNING,
	PFRAG_BENCH_DONE,
	PFRAG_BENCH_FAILED,
	PFRAG_BENCH_STOPPED,
};

/* What outlives the run, and so the contestant's module, is copied. */
struct pfrag_bench_contestant {
	struct pfrag_bench_ops *ops;
	char name[PFRAG_BENCH_NAME_LEN];
	char twin[PFRAG_BENCH_NAME_LEN];
	char per[PFRAG_BENCH_NAME_LEN];
	unsigned int nr_threads;
	bool out;			/* it failed: no more turns */
};

/*
 * Written by whoever runs it. Others may look at `state`, `jobs_done` and the
 * results below `nr_results`, which are published with a release, and set `stop`.
 */
struct pfrag_bench_run {
	struct pfrag_bench_params params;
	struct pfrag_bench_contestant contestants[PFRAG_BENCH_MAX_CONTESTANTS];
	unsigned int nr_contestants;
	u32 number;

	enum pfrag_bench_state state;
	int error;
	bool stop;
	unsigned int jobs_done;
	unsigned int jobs_total;

	unsigned int nr_results;
	unsigned int max_results;
	struct pfrag_bench_result *results;
};

static int pfrag_bench_add_contestant(struct pfrag_bench_run *run,
				      struct pfrag_bench_ops *ops)
{
	struct pfrag_bench_contestant *c;
	unsigned int i;

	for (i = 0; i < run->nr_contestants; i++) {
		if (run->contestants[i].ops == ops) {
			pr_err("contestants: %s is named twice\n", ops->name);
			return -EINVAL;
		}
	}
	if (run->nr_contestants == PFRAG_BENCH_MAX_CONTESTANTS) {
		pr_err("contestants: more than %u\n",
		       PFRAG_BENCH_MAX_CONTESTANTS);
		return -EINVAL;
	}
	/*
	 * Its module stays until the run has ended. Not so our own: unloading us
	 * is what ends a run.
	 */
	if (ops->owner != THIS_MODULE && !try_module_get(ops->owner)) {
		pr_err("contestants: %s is being unloaded\n", ops->name);
		return -EINVAL;
	}

	c = &run->contestants[run->nr_contestants++];
	c->ops = ops;
	c->nr_threads = ops->nr_threads;
	strscpy(c->name, ops->name, sizeof(c->name));
	strscpy(c->twin, ops->twin ?: "", sizeof(c->twin));
	strscpy(c->per, ops->per, sizeof(c->per));
	return 0;
}

static void pfrag_bench_put_contestants(struct pfrag_bench_run *run)
{
	struct pfrag_bench_ops *ops;
	unsigned int i;

	for (i = 0; i < run->nr_contestants; i++) {
		ops = run->contestants[i].ops;
		if (ops && ops->owner != THIS_MODULE)
			module_put(ops->owner);
		run->contestants[i].ops = NULL;
	}
}

static void pfrag_bench_run_destroy(struct pfrag_bench_run *run)
{
	if (!run)
		return;
	pfrag_bench_put_contestants(run);
	kvfree(run->results);
	kvfree(run);
}

/* A comma-separated list of contestants of the run's workload; NULL: all of them. */
static int pfrag_bench_choose(struct pfrag_bench_run *run, char *list)
{
	const char *workload = run->params.workload;
	struct pfrag_bench_ops *ops;
	int err = 0;
	char *name;

	mutex_lock(&pfrag_bench_ops_lock);
	if (!pfrag_bench_find(workload, NULL)) {
		pr_err("workload: there is no \"%s\"\n", workload);
		err = -EINVAL;
	} else if (list) {
		while (!err && (name = strsep(&list, ","))) {
			ops = pfrag_bench_find(workload, name);
			if (!ops) {
				pr_err("contestants: there is no \"%s\" in workload \"%s\"\n",
				       name, workload);
				err = -EINVAL;
				break;
			}
			err = pfrag_bench_add_contestant(run, ops);
		}
	} else {
		list_for_each_entry(ops, &pfrag_bench_ops_list, list)
			if (!err && !strcmp(ops->workload, workload))
				err = pfrag_bench_add_contestant(run, ops);
	}
	mutex_unlock(&pfrag_bench_ops_lock);
	return err;
}

static int pfrag_bench_check_cpu(const char *param, unsigned int cpu)
{
	const char *why;

	if (cpu >= nr_cpu_ids || !cpu_present(cpu))
		why = "not present";
	else if (!cpu_online(cpu))
		why = "offline";
	else if (!cpu_active(cpu))
		why = "closed to tasks";
	else
		return 0;
	pr_err("%s: CPU %u is %s\n", param, cpu, why);
	return -EINVAL;
}

static int pfrag_bench_check_align(const char *param, u32 align)
{
	if (!align || is_power_of_2(align))
		return 0;
	pr_err("%s: %u is not a power of two\n", param, align);
	return -EINVAL;
}

/* Take CPUs in order where the description names none, one if there is but one. */
static void pfrag_bench_default_cpus(struct pfrag_bench_params *params,
				     unsigned int nr)
{
	unsigned int cpu = cpumask_first(cpu_online_mask);

	while (params->nr_cpus < nr) {
		params->cpus[params->nr_cpus++] = cpu;
		cpu = cpumask_next(cpu, cpu_online_mask);
		if (cpu >= nr_cpu_ids)
			cpu = cpumask_first(cpu_online_mask);
	}
}

/* With the parameters set and the contestants chosen: the rest of a run. */
static int pfrag_bench_prepare(struct pfrag_bench_run *run)
{
	struct pfrag_bench_params *params = &run->params;
	unsigned int nr_threads = run->contestants[0].nr_threads;

	if (!params->nr_cpus)
		pfrag_bench_default_cpus(params, nr_threads);
	if (params->nr_cpus != nr_threads) {
		pr_err("cpus: %s has %u threads, %u CPUs are named\n",
		       params->workload, nr_threads, params->nr_cpus);
		return -EINVAL;
	}
	if (params->irqoff && nr_threads > 1) {
		pr_err("irqoff: the threads of %s wait for each other\n",
		       params->workload);
		return -EINVAL;
	}
	if ((u64)params->rounds * run->nr_contestants > PFRAG_BENCH_MAX_RESULTS) {
		pr_err("rounds: %u of %u contestants are more than %u results\n",
		       params->rounds, run->nr_contestants,
		       PFRAG_BENCH_MAX_RESULTS);
		return -EINVAL;
	}

	/* A warm-up that fails takes the place of the rounds it prevents. */
	run->max_results = params->rounds * run->nr_contestants;
	run->jobs_total = (params->warmup + params->rounds) * run->nr_contestants;
	if (!pfrag_bench_step_fails())
		run->results = kvcalloc(run->max_results, sizeof(*run->results),
					GFP_KERNEL);
	return run->results ? 0 : -ENOMEM;
}

static void pfrag_bench_publish(struct pfrag_bench_run *run)
{
	/* Pairs with the acquire of those who read results: they are complete. */
	smp_store_release(&run->nr_results, run->nr_results + 1);
}

/* One JSON line, as docs/benchmark.md describes it. */
static int pfrag_bench_format(char *buf, size_t size,
			      const struct pfrag_bench_run *run,
			      const struct pfrag_bench_result *result)
{
	const struct pfrag_bench_contestant *c;
	const struct pfrag_bench_params *p = &run->params;
	bool pair;
	int len;

	c = &run->contestants[result->contestant];
	pair = c->nr_threads > 1;

	len = scnprintf(buf, size,
			"{\"run\":%u,\"workload\":\"%s\",\"contestant\":\"%s\",",
			run->number, p->workload, c->name);
	len += scnprintf(buf + len, size - len, c->twin[0] ?
			 "\"twin\":\"%s\"," : "\"twin\":null,", c->twin);
	len += scnprintf(buf + len, size - len,
			 "\"per\":\"%s\",\"round\":%u,\"size\":%u,\"align\":%u,\"depth\":%u,\"batch\":%u,",
			 c->per, result->round, p->size, p->align, p->depth,
			 p->batch);
	len += scnprintf(buf + len, size - len, pair ?
			 "\"cpus\":[%u,%u]," : "\"cpus\":[%u],",
			 p->cpus[0], p->cpus[1]);
	len += scnprintf(buf + len, size - len, pair ?
			 "\"asked\":%u,\"done\":[%llu,%llu]," :
			 "\"asked\":%u,\"done\":[%llu],",
			 p->nr, result->done[0], result->done[1]);
	len += scnprintf(buf + len, size - len,
			 "\"failed_allocs\":%llu,\"ns\":%llu,",
			 result->failed_allocs, result->ns);
	len += scnprintf(buf + len, size - len, pair ?
			 "\"thread_ns\":[%llu,%llu]," : "\"thread_ns\":[%llu],",
			 result->thread_ns[0], result->thread_ns[1]);
	len += scnprintf(buf + len, size - len,
			 "\"leaked\":{\"blocks\":%ld,\"pages\":%ld},",
			 result->leaked_blocks, result->leaked_pages);
	if (result->error)
		len += scnprintf(buf + len, size - len, "\"error\":%d,",
				 result->error);
	return len + scnprintf(buf + len, size - len, "\"status\":\"%s\"}\n",
			       result->error ? "failed" :
			       result->absent ? "absent" : "ok");
}

/* Leave the outcome in the core, which stays loaded. */
static int pfrag_bench_keep(const struct pfrag_bench_run *run)
{
	char line[PFRAG_BENCH_LINE_LEN];
	char *text = NULL;
	size_t size = 1;
	size_t len = 0;
	unsigned int i;

	for (i = 0; i < run->nr_results; i++)
		size += pfrag_bench_format(line, sizeof(line), run,
					   &run->results[i]);
	if (!pfrag_bench_step_fails())
		text = kvmalloc(size, GFP_KERNEL);
	if (!text)
		return -ENOMEM;
	for (i = 0; i < run->nr_results; i++)
		len += pfrag_bench_format(text + len, size - len, run,
					  &run->results[i]);
	return pfrag_run_publish(run->number, text, len);
}

static int pfrag_bench_turn(struct pfrag_bench_run *run, u32 round,
			    unsigned int contestant)
{
	const struct pfrag_bench_params *params = &run->params;
	struct pfrag_bench_ops *ops = run->contestants[contestant].ops;
	struct pfrag_bench_result *result = &run->results[run->nr_results];
	bool warmup = round < params->warmup;

	memset(result, 0, sizeof(*result));
	result->contestant = contestant;
	result->round = warmup ? 0 : round - params->warmup;

	if (ops->no_align && params->align) {
		result->absent = true;
		/* Once is enough. */
		if (round == params->warmup)
			pfrag_bench_publish(run);
	} else {
		pfrag_bench_one_job(params, ops, &run->stop, result);
		run->contestants[contestant].out = result->error;
		if (!warmup || result->error)
			pfrag_bench_publish(run);
	}
	return result->error;
}

/*
 * Run it all. A contestant that fails is out and the others go on, as one of them
 * may be unable to do what is asked. The run has failed then, with its error.
 */
static int pfrag_bench_execute(struct pfrag_bench_run *run)
{
	int turn_err = 0;
	unsigned int i;
	int err = 0;

	run->number = pfrag_run_number();
	for (i = 0; i < run->jobs_total && turn_err != -EINTR; i++) {
		unsigned int contestant = i % run->nr_contestants;

		turn_err = 0;
		if (!run->contestants[contestant].out)
			turn_err = pfrag_bench_turn(run, i / run->nr_contestants,
						    contestant);
		/* Being told to stop comes before whatever happened till then. */
		if (!err || turn_err == -EINTR)
			err = turn_err;
		WRITE_ONCE(run->jobs_done, i + 1);
	}

	pfrag_bench_put_contestants(run);
	turn_err = pfrag_bench_keep(run);
	run->error = err ?: turn_err;
	err = run->error;
	/* Pairs with the acquire in pfrag_bench_state(): the run is complete. */
	smp_store_release(&run->state, !err ? PFRAG_BENCH_DONE :
				       err == -EINTR ? PFRAG_BENCH_STOPPED :
				       PFRAG_BENCH_FAILED);
	return err;
}

static struct pfrag_bench_run *pfrag_bench_run_create(const char *workload)
{
	struct pfrag_bench_run *run = NULL;

	if (!pfrag_bench_step_fails())
		run = kvzalloc(sizeof(*run), GFP_KERNEL);
	if (!run)
		return NULL;
	/* The defaults are those of the kernel's own test of page_frag. */
	run->params.size = 2048;
	run->params.depth = 1;
	run->params.batch = 1;
	run->params.rounds = 1;
	run->params.nr = 2000000;
	strscpy(run->params.workload, workload, sizeof(run->params.workload));
	return run;
}

#endif /* PFRAG_BENCH_RUN_H */
