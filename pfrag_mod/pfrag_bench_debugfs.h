/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The benchmark driven through debugfs. Included by pfrag_bench.c alone.
 *
 *	pfrag/bench/run		write a description, or "stop"; read it back
 *	pfrag/bench/progress	STATE JOBS_DONE JOBS_TOTAL [text]
 *	pfrag/bench/results	JSON, one line per round and contestant
 *	pfrag/bench/table	the same for people
 *	pfrag/bench/list	WORKLOAD CONTESTANT TWIN
 */
#ifndef PFRAG_BENCH_DEBUGFS_H
#define PFRAG_BENCH_DEBUGFS_H

#include <linux/debugfs.h>
#include <linux/fs.h>
#include <linux/math64.h>
#include <linux/seq_file.h>
#include <linux/sort.h>
#include <linux/uaccess.h>
#include <linux/workqueue.h>

#include "pfrag_bench_run.h"

#define PFRAG_BENCH_MAX_DESCRIPTION	1024

static DEFINE_MUTEX(pfrag_bench_run_lock);	/* the two below */
static struct pfrag_bench_run *pfrag_bench_latest;
static char pfrag_bench_description[PFRAG_BENCH_MAX_DESCRIPTION];

static struct dentry *pfrag_bench_dir;
static struct workqueue_struct *pfrag_bench_queue;

static void pfrag_bench_runner(struct work_struct *work)
{
	/* Replaced only once it has ended, and that is below. */
	pfrag_bench_execute(pfrag_bench_latest);
}

static DECLARE_WORK(pfrag_bench_work_item, pfrag_bench_runner);

/* Descriptions: words of the form key=value. */

struct pfrag_bench_key {
	const char *name;
	size_t offset;
	u32 min;
	u32 max;
};

#define PFRAG_BENCH_KEY(_field, _min, _max)				\
	{								\
		.name = #_field,					\
		.offset = offsetof(struct pfrag_bench_params, _field),	\
		.min = _min, .max = _max,				\
	}

static const struct pfrag_bench_key pfrag_bench_keys[] = {
	PFRAG_BENCH_KEY(size, 1, 32768),
	PFRAG_BENCH_KEY(align, 0, 32768),
	PFRAG_BENCH_KEY(depth, 1, 65536),
	PFRAG_BENCH_KEY(batch, 1, 512),
	PFRAG_BENCH_KEY(rounds, 1, PFRAG_BENCH_MAX_RESULTS),
	PFRAG_BENCH_KEY(warmup, 0, 100),
	PFRAG_BENCH_KEY(nr, 1, U32_MAX),
	PFRAG_BENCH_KEY(irqoff, 0, 1),
};

static int pfrag_bench_parse_number(struct pfrag_bench_params *params,
				    const struct pfrag_bench_key *key,
				    const char *value)
{
	long long number;

	if (kstrtoll(value, 10, &number) || number < key->min ||
	    number > key->max) {
		pr_err("%s: \"%s\" is not a number from %u to %u\n", key->name,
		       value, key->min, key->max);
		return -EINVAL;
	}
	*(u32 *)((void *)params + key->offset) = number;
	return 0;
}

static int pfrag_bench_parse_cpus(struct pfrag_bench_params *params, char *list)
{
	unsigned int cpu;
	char *word;
	int err;

	while ((word = strsep(&list, ","))) {
		if (kstrtouint(word, 10, &cpu)) {
			pr_err("cpus: \"%s\" is not the number of a CPU\n", word);
			return -EINVAL;
		}
		if (params->nr_cpus == PFRAG_BENCH_MAX_THREADS) {
			pr_err("cpus: more than %u\n", PFRAG_BENCH_MAX_THREADS);
			return -EINVAL;
		}
		err = pfrag_bench_check_cpu("cpus", cpu);
		if (err)
			return err;
		params->cpus[params->nr_cpus++] = cpu;
	}
	return 0;
}

static int pfrag_bench_parse_word(struct pfrag_bench_run *run, char *word,
				  char **contestants)
{
	struct pfrag_bench_params *params = &run->params;
	char *value = word;
	char *key = strsep(&value, "=");
	unsigned int i;

	if (!value) {
		pr_err("%s: a word of a description has the form key=value\n", key);
		return -EINVAL;
	}
	if (!strcmp(key, "workload")) {
		if (strscpy(params->workload, value,
			    sizeof(params->workload)) < 0) {
			pr_err("workload: there is no \"%s\"\n", value);
			return -EINVAL;
		}
		return 0;
	}
	if (!strcmp(key, "contestants")) {
		*contestants = value;
		return 0;
	}
	if (!strcmp(key, "cpus")) {
		params->nr_cpus = 0;
		return pfrag_bench_parse_cpus(params, value);
	}
	for (i = 0; i < ARRAY_SIZE(pfrag_bench_keys); i++)
		if (!strcmp(key, pfrag_bench_keys[i].name))
			return pfrag_bench_parse_number(params,
							&pfrag_bench_keys[i],
							value);
	pr_err("%s: no such key\n", key);
	return -EINVAL;
}

static int pfrag_bench_parse(struct pfrag_bench_run *run, char *text)
{
	char *contestants = NULL;
	char *word;
	int err;

	run->params.warmup = 1;
	while ((word = strsep(&text, " \t\n"))) {
		if (!*word)
			continue;
		err = pfrag_bench_parse_word(run, word, &contestants);
		if (err)
			return err;
	}
	err = pfrag_bench_check_align("align", run->params.align);
	if (err)
		return err;
	return pfrag_bench_choose(run, contestants);
}

/* Where a run is; if it is not running, all else about it can be read. */
static enum pfrag_bench_state pfrag_bench_state(const struct pfrag_bench_run *run)
{
	/* Pairs with the release in pfrag_bench_execute(). */
	return smp_load_acquire(&run->state);
}

static bool pfrag_bench_busy(void)
{
	return pfrag_bench_latest &&
	       pfrag_bench_state(pfrag_bench_latest) == PFRAG_BENCH_RUNNING;
}

static int pfrag_bench_start(char *text)
{
	struct pfrag_bench_run *run;
	int err;

	if (pfrag_bench_busy()) {
		pr_err("run: another run is under way\n");
		return -EBUSY;
	}

	run = pfrag_bench_run_create("pushpop");
	if (!run)
		return -ENOMEM;
	strscpy(pfrag_bench_description, text, sizeof(pfrag_bench_description));
	err = pfrag_bench_parse(run, text);
	if (!err)
		err = pfrag_bench_prepare(run);
	if (err) {
		pfrag_bench_run_destroy(run);
		return err;
	}

	/* The last run has ended; so must its work before the next is queued. */
	flush_work(&pfrag_bench_work_item);
	pfrag_bench_run_destroy(pfrag_bench_latest);
	pfrag_bench_latest = run;
	queue_work(pfrag_bench_queue, &pfrag_bench_work_item);
	return 0;
}

static ssize_t pfrag_bench_run_write(struct file *file, const char __user *buf,
				     size_t count, loff_t *pos)
{
	char *text;
	int err;

	if (count >= PFRAG_BENCH_MAX_DESCRIPTION) {
		pr_err("run: a description has at most %u bytes\n",
		       PFRAG_BENCH_MAX_DESCRIPTION - 1);
		return -EINVAL;
	}
	text = memdup_user_nul(buf, count);
	if (IS_ERR(text))
		return PTR_ERR(text);

	mutex_lock(&pfrag_bench_run_lock);
	if (strcmp(strim(text), "stop")) {
		err = pfrag_bench_start(text);
	} else {
		if (pfrag_bench_latest)
			WRITE_ONCE(pfrag_bench_latest->stop, true);
		err = 0;
	}
	mutex_unlock(&pfrag_bench_run_lock);
	kfree(text);
	return err ?: count;
}

static int pfrag_bench_run_show(struct seq_file *m, void *v)
{
	mutex_lock(&pfrag_bench_run_lock);
	if (pfrag_bench_latest)
		seq_printf(m, "%s\n", strim(pfrag_bench_description));
	mutex_unlock(&pfrag_bench_run_lock);
	return 0;
}

static int pfrag_bench_run_open(struct inode *inode, struct file *file)
{
	return single_open(file, pfrag_bench_run_show, NULL);
}

static const struct file_operations pfrag_bench_run_fops = {
	.owner = THIS_MODULE,
	.open = pfrag_bench_run_open,
	.read = seq_read,
	.write = pfrag_bench_run_write,
	.llseek = seq_lseek,
	.release = single_release,
};

static const char * const pfrag_bench_states[] = {
	[PFRAG_BENCH_RUNNING] = "running",
	[PFRAG_BENCH_DONE] = "done",
	[PFRAG_BENCH_FAILED] = "failed",
	[PFRAG_BENCH_STOPPED] = "stopped",
};

static int pfrag_bench_progress_show(struct seq_file *m, void *v)
{
	struct pfrag_bench_run *run;
	enum pfrag_bench_state state;
	unsigned int done;

	mutex_lock(&pfrag_bench_run_lock);
	run = pfrag_bench_latest;
	if (!run) {
		seq_puts(m, "idle 0 0\n");
	} else {
		done = READ_ONCE(run->jobs_done);
		state = pfrag_bench_state(run);
		seq_printf(m, "%s %u %u", pfrag_bench_states[state], done,
			   run->jobs_total);
		if (state == PFRAG_BENCH_RUNNING && done < run->jobs_total)
			seq_printf(m, " %s %s", run->params.workload,
				   run->contestants[done % run->nr_contestants].name);
		else if (state != PFRAG_BENCH_RUNNING && run->error)
			seq_printf(m, " error %d", run->error);
		seq_putc(m, '\n');
	}
	mutex_unlock(&pfrag_bench_run_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pfrag_bench_progress);

static int pfrag_bench_results_show(struct seq_file *m, void *v)
{
	char line[PFRAG_BENCH_LINE_LEN];
	struct pfrag_bench_run *run;
	unsigned int nr = 0;
	unsigned int i;

	mutex_lock(&pfrag_bench_run_lock);
	run = pfrag_bench_latest;
	if (run)
		/* Pairs with the release in pfrag_bench_publish(). */
		nr = smp_load_acquire(&run->nr_results);
	for (i = 0; i < nr; i++) {
		pfrag_bench_format(line, sizeof(line), run, &run->results[i]);
		seq_puts(m, line);
	}
	mutex_unlock(&pfrag_bench_run_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pfrag_bench_results);

static int pfrag_bench_cmp_ns(const void *a, const void *b)
{
	u64 x = *(const u64 *)a;
	u64 y = *(const u64 *)b;

	return x < y ? -1 : x > y;
}

/* Columns of the table: median, least, most; in percent of the sorted rounds. */
static const unsigned int pfrag_bench_columns[] = { 50, 0, 100 };

/* A line of the table: tenths of a nanosecond for each object. */
static void pfrag_bench_table_row(struct seq_file *m,
				  const struct pfrag_bench_run *run,
				  unsigned int contestant, u64 *ns)
{
	const char *status = "ok";
	unsigned int nr = 0;
	unsigned int i;
	u64 tenths;

	for (i = 0; i < run->nr_results; i++) {
		const struct pfrag_bench_result *result = &run->results[i];

		if (result->contestant != contestant)
			continue;
		if (result->absent)
			status = "absent";
		else if (result->error)
			status = "failed";
		else
			ns[nr++] = result->ns;
	}

	seq_printf(m, "%-24s", run->contestants[contestant].name);
	sort(ns, nr, sizeof(*ns), pfrag_bench_cmp_ns, NULL);
	for (i = 0; i < ARRAY_SIZE(pfrag_bench_columns); i++) {
		/* No figures for what failed. */
		if (!nr || strcmp(status, "ok")) {
			seq_printf(m, " %9s", "-");
			continue;
		}
		tenths = div_u64(ns[(nr - 1) * pfrag_bench_columns[i] / 100] * 10,
				 run->params.nr);
		seq_printf(m, " %7llu.%llu", div_u64(tenths, 10),
			   tenths - 10 * div_u64(tenths, 10));
	}
	seq_printf(m, " %7u %s\n", nr, status);
}

static int pfrag_bench_table_show(struct seq_file *m, void *v)
{
	struct pfrag_bench_run *run;
	unsigned int i;
	int err = 0;
	u64 *ns;

	mutex_lock(&pfrag_bench_run_lock);
	run = pfrag_bench_latest;
	if (!run || pfrag_bench_busy())
		goto unlock;
	ns = kvcalloc(run->max_results, sizeof(*ns), GFP_KERNEL);
	if (!ns) {
		err = -ENOMEM;
		goto unlock;
	}
	seq_printf(m, "run %u: %s, size %u, align %u, depth %u, %u %ss a round\n",
		   run->number, run->params.workload, run->params.size,
		   run->params.align, run->params.depth, run->params.nr,
		   run->contestants[0].per);
	seq_printf(m, "%-24s %9s %9s %9s %7s\n", "ns each", "median", "min",
		   "max", "rounds");
	for (i = 0; i < run->nr_contestants; i++)
		pfrag_bench_table_row(m, run, i, ns);
	kvfree(ns);
unlock:
	mutex_unlock(&pfrag_bench_run_lock);
	return err;
}
DEFINE_SHOW_ATTRIBUTE(pfrag_bench_table);

static int pfrag_bench_list_show(struct seq_file *m, void *v)
{
	struct pfrag_bench_ops *ops;

	mutex_lock(&pfrag_bench_ops_lock);
	list_for_each_entry(ops, &pfrag_bench_ops_list, list)
		seq_printf(m, "%s %s %s\n", ops->workload, ops->name,
			   ops->twin ?: "-");
	mutex_unlock(&pfrag_bench_ops_lock);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(pfrag_bench_list);

static int pfrag_bench_debugfs_init(void)
{
	struct dentry *dir;

	/* A run lasts: it takes no worker from those who share a queue. */
	if (!pfrag_bench_step_fails())
		pfrag_bench_queue = alloc_workqueue("pfrag_bench", WQ_UNBOUND, 1);
	if (!pfrag_bench_queue)
		return -ENOMEM;

	dir = debugfs_create_dir("bench", pfrag_debug_dir());
	if (IS_ERR(dir)) {
		pr_err("debugfs is needed to drive the benchmark (error %ld)\n",
		       PTR_ERR(dir));
		destroy_workqueue(pfrag_bench_queue);
		return PTR_ERR(dir);
	}
	debugfs_create_file("run", 0600, dir, NULL, &pfrag_bench_run_fops);
	debugfs_create_file("progress", 0400, dir, NULL,
			    &pfrag_bench_progress_fops);
	debugfs_create_file("results", 0400, dir, NULL,
			    &pfrag_bench_results_fops);
	debugfs_create_file("table", 0400, dir, NULL, &pfrag_bench_table_fops);
	debugfs_create_file("list", 0400, dir, NULL, &pfrag_bench_list_fops);
	pfrag_bench_dir = dir;
	return 0;
}

static void pfrag_bench_debugfs_exit(void)
{
	/* Nobody writes a description after this; what runs is told to end. */
	debugfs_remove(pfrag_bench_dir);
	if (pfrag_bench_latest)
		WRITE_ONCE(pfrag_bench_latest->stop, true);
	destroy_workqueue(pfrag_bench_queue);
	pfrag_bench_run_destroy(pfrag_bench_latest);
}

#endif /* PFRAG_BENCH_DEBUGFS_H */
