// SPDX-License-Identifier: GPL-2.0
/*
 * debugfs: what the allocators hold, failures on demand, and the outcomes of
 * benchmark runs.
 *
 *	pfrag/live_blocks, live_pages	held by caches at the moment
 *	pfrag/fail/			struct pfrag_hooks
 *	pfrag/runs/N, runs/last		outcome of run N; the newest number
 */
#include <linux/debugfs.h>
#include <linux/export.h>
#include <linux/fs.h>
#include <linux/list.h>
#include <linux/mm.h>
#include <linux/mutex.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "pfrag.h"
#include "pfrag_compat.h"
#include "pfrag_internal.h"

/*
 * `perf stat -r 100 -- insmod ...` leaves 100 outcomes: keep some more, but not
 * all of them if they are large.
 */
#define PFRAG_RUNS_KEPT		128
#define PFRAG_RUNS_BYTES	(8 << 20)

struct pfrag_hooks pfrag_hooks = { .times = 1 };
pfrag_export_symbol(pfrag_hooks);

static DEFINE_SPINLOCK(pfrag_hook_lock);

/**
 * pfrag_hook_fails() - must this visit to the page allocator fail?
 * @order: order of the block that is asked for
 *
 * Context: Any but NMI.
 * Return: true if a hook wants it to.
 */
bool pfrag_hook_fails(unsigned int order)
{
	unsigned long flags;
	bool fail = false;

	if (order && READ_ONCE(pfrag_hooks.order0_only))
		return true;
	if (likely(!READ_ONCE(pfrag_hooks.nth)))
		return false;

	spin_lock_irqsave(&pfrag_hook_lock, flags);
	if (pfrag_hooks.nth > 1) {
		WRITE_ONCE(pfrag_hooks.nth, pfrag_hooks.nth - 1);
	} else if (pfrag_hooks.nth == 1) {
		fail = true;
		if (pfrag_hooks.times <= 1) {
			pfrag_hooks.times = 1;
			WRITE_ONCE(pfrag_hooks.nth, 0);
		} else if (pfrag_hooks.times != PFRAG_HOOK_FOREVER) {
			pfrag_hooks.times--;
		}
	}
	spin_unlock_irqrestore(&pfrag_hook_lock, flags);
	return fail;
}

static struct dentry *pfrag_dir;
static struct dentry *pfrag_runs_dir;

struct dentry *pfrag_debug_dir(void)
{
	return pfrag_dir;
}
pfrag_export_symbol(pfrag_debug_dir);

/* One outcome: read through its file, freed once the file is gone. */
struct pfrag_run_text {
	struct list_head list;
	struct dentry *file;
	size_t len;
	char *text;
};

static DEFINE_MUTEX(pfrag_runs_lock);
static LIST_HEAD(pfrag_runs);
static u32 pfrag_runs_kept;
static size_t pfrag_runs_bytes;
static u32 pfrag_runs_last;
static u32 pfrag_runs_next = 1;

static ssize_t pfrag_run_read(struct file *file, char __user *buf, size_t count,
			      loff_t *pos)
{
	const struct pfrag_run_text *run = file->private_data;

	return simple_read_from_buffer(buf, count, pos, run->text, run->len);
}

static const struct file_operations pfrag_run_fops = {
	.owner = THIS_MODULE,
	.open = simple_open,
	.read = pfrag_run_read,
	.llseek = default_llseek,
};

static void pfrag_run_drop(struct pfrag_run_text *run)
{
	/* Waits for readers inside pfrag_run_read(). */
	debugfs_remove(run->file);
	list_del(&run->list);
	pfrag_runs_kept--;
	pfrag_runs_bytes -= run->len;
	kvfree(run->text);
	kfree(run);
}

/**
 * pfrag_run_number() - number for a benchmark run that starts
 *
 * Context: Process, may sleep.
 * Return: 1, 2, 3 … as long as pfrag.ko stays loaded.
 */
u32 pfrag_run_number(void)
{
	u32 nr;

	mutex_lock(&pfrag_runs_lock);
	nr = pfrag_runs_next++;
	mutex_unlock(&pfrag_runs_lock);
	return nr;
}
pfrag_export_symbol(pfrag_run_number);

/**
 * pfrag_run_publish() - make the outcome of a run readable under its number
 * @nr: from pfrag_run_number()
 * @text: JSON lines, from kvmalloc(); taken over, also on error
 * @len: bytes of @text
 *
 * The last %PFRAG_RUNS_KEPT outcomes are kept, up to %PFRAG_RUNS_BYTES bytes; the
 * newest in any case.
 *
 * Context: Process, may sleep.
 * Return: 0, or -ENOMEM.
 */
int pfrag_run_publish(u32 nr, char *text, size_t len)
{
	struct pfrag_run_text *run;
	char name[16];

	run = kzalloc(sizeof(*run), GFP_KERNEL);
	if (!run) {
		kvfree(text);
		return -ENOMEM;
	}
	run->text = text;
	run->len = len;

	mutex_lock(&pfrag_runs_lock);
	while (pfrag_runs_kept == PFRAG_RUNS_KEPT ||
	       (pfrag_runs_kept && pfrag_runs_bytes + len > PFRAG_RUNS_BYTES))
		pfrag_run_drop(list_first_entry(&pfrag_runs,
						struct pfrag_run_text, list));
	scnprintf(name, sizeof(name), "%u", nr);
	run->file = debugfs_create_file(name, 0400, pfrag_runs_dir, run,
					&pfrag_run_fops);
	list_add_tail(&run->list, &pfrag_runs);
	pfrag_runs_kept++;
	pfrag_runs_bytes += len;
	pfrag_runs_last = nr;
	mutex_unlock(&pfrag_runs_lock);
	return 0;
}
pfrag_export_symbol(pfrag_run_publish);

static int pfrag_live_blocks_get(void *data, u64 *val)
{
	*val = pfrag_live_blocks();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(pfrag_live_blocks_fops, pfrag_live_blocks_get, NULL,
			 "%lld\n");

static int pfrag_live_pages_get(void *data, u64 *val)
{
	*val = pfrag_live_pages();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(pfrag_live_pages_fops, pfrag_live_pages_get, NULL,
			 "%lld\n");

/* A kernel without debugfs, or with it locked down, loses the view only. */
void pfrag_debug_init(void)
{
	struct dentry *fail;

	pfrag_dir = debugfs_create_dir("pfrag", NULL);
	debugfs_create_file_unsafe("live_blocks", 0444, pfrag_dir, NULL,
				   &pfrag_live_blocks_fops);
	debugfs_create_file_unsafe("live_pages", 0444, pfrag_dir, NULL,
				   &pfrag_live_pages_fops);

	fail = debugfs_create_dir("fail", pfrag_dir);
	debugfs_create_u32("times", 0600, fail, &pfrag_hooks.times);
	debugfs_create_u32("nth", 0600, fail, &pfrag_hooks.nth);
	debugfs_create_bool("order0_only", 0600, fail, &pfrag_hooks.order0_only);
	debugfs_create_bool("pfmemalloc", 0600, fail, &pfrag_hooks.pfmemalloc);

	pfrag_runs_dir = debugfs_create_dir("runs", pfrag_dir);
	debugfs_create_u32("last", 0444, pfrag_runs_dir, &pfrag_runs_last);
}

void pfrag_debug_exit(void)
{
	struct pfrag_run_text *run, *next;

	list_for_each_entry_safe(run, next, &pfrag_runs, list)
		pfrag_run_drop(run);
	debugfs_remove(pfrag_dir);
}
