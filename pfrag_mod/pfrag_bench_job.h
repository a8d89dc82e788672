/* SPDX-License-Identifier: GPL-2.0 */
/*
 * One job of the benchmark: one contestant in one round, on threads pinned to
 * CPUs. Included by pfrag_bench.c alone: a module of several objects cannot bear
 * the name of one of them, so the benchmark is one object in several headers.
 */
#ifndef PFRAG_BENCH_JOB_H
#define PFRAG_BENCH_JOB_H

#include <linux/err.h>
#include <linux/irqflags.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/topology.h>
#include <linux/wait.h>

#include "pfrag.h"
#include "pfrag_bench.h"
#include "pfrag_compat.h"

/*
 * Objects between two looks at the scheduler and at a request to stop. With a peer
 * on another CPU it is also how long that peer waits for news of what was done.
 */
#define PFRAG_BENCH_CHUNK	1024
#define PFRAG_BENCH_PEER_CHUNK	64
/* Looks at a peer on another CPU before sleeping: up to a millisecond. */
#define PFRAG_BENCH_SPINS	10000
/* Allocations that fail in a row, a tick apart, before a job gives up. */
#define PFRAG_BENCH_MAX_FAILS	50

/* What came out of a job. */
struct pfrag_bench_result {
	unsigned int contestant;	/* index in the run */
	u32 round;
	bool absent;			/* the kernel lacks it: no job was run */
	int error;
	u64 ns;
	u64 failed_allocs;
	long leaked_blocks;
	long leaked_pages;
	u64 done[PFRAG_BENCH_MAX_THREADS];
	u64 thread_ns[PFRAG_BENCH_MAX_THREADS];
};

static unsigned int pfrag_bench_fail_step;
module_param_named(fail_step, pfrag_bench_fail_step, uint, 0644);
MODULE_PARM_DESC(fail_step, "Let the Nth set-up step from now fail; 0: none (for tests)");

bool pfrag_bench_step_fails(void)
{
	unsigned int step = READ_ONCE(pfrag_bench_fail_step);

	if (likely(!step))
		return false;
	WRITE_ONCE(pfrag_bench_fail_step, step - 1);
	return step == 1;
}
pfrag_export_symbol(pfrag_bench_step_fails);

/* Threads. */

/* Everything that the other threads of the job have done. */
static u64 pfrag_bench_peers_done(const struct pfrag_bench_thread *thread)
{
	const struct pfrag_bench_job *job = thread->job;
	unsigned int i;
	u64 done = 0;

	for (i = 0; i < job->ops->nr_threads; i++)
		if (i != thread->id)
			done += READ_ONCE(job->threads[i].done);
	return done;
}

static bool pfrag_bench_can_go_on(struct pfrag_bench_thread *thread, u64 seen)
{
	struct pfrag_bench_job *job = thread->job;

	return pfrag_bench_peers_done(thread) != seen || READ_ONCE(job->stop) ||
	       atomic_read(&job->running) == 1;
}

/* Does another thread of the job run at the same time as we do? */
static bool pfrag_bench_has_parallel_peer(const struct pfrag_bench_job *job)
{
	return job->ops->nr_threads > 1 &&
	       job->params->cpus[0] != job->params->cpus[1];
}

/* Let those go on who wait for what we did. */
static void pfrag_bench_wake_peers(struct pfrag_bench_job *job)
{
	/* The full barrier inside orders `done` before the look at the queue. */
	if (wq_has_sleeper(&job->wait))
		wake_up_all(&job->wait);
}

/*
 * The other thread must go on first, from where it was at @seen. On a CPU of its
 * own it most likely does so at once, and a sleep would be measured; on ours it
 * cannot before we sleep.
 */
static int pfrag_bench_wait_for_peer(struct pfrag_bench_thread *thread, u64 seen)
{
	struct pfrag_bench_job *job = thread->job;
	unsigned int spins;

	pfrag_bench_wake_peers(job);
	if (pfrag_bench_has_parallel_peer(job)) {
		for (spins = 0; spins < PFRAG_BENCH_SPINS; spins++) {
			if (pfrag_bench_can_go_on(thread, seen))
				break;
			cpu_relax();
		}
		cond_resched();
	}
	/* A slow peer is no error, a lost wake-up must not be one either. */
	while (!wait_event_idle_timeout(job->wait,
					pfrag_bench_can_go_on(thread, seen), HZ))
		;
	if (READ_ONCE(job->stop))
		return -EINTR;
	/* Pairs with the barrier before the peer leaves `running`. */
	smp_rmb();
	/* Alone, and still nothing to do: the peer left without its share. */
	if (pfrag_bench_peers_done(thread) == seen)
		return -EPIPE;
	return 0;
}

static int pfrag_bench_wait_for_memory(struct pfrag_bench_thread *thread,
				       unsigned int *fails)
{
	thread->failed_allocs++;
	if (++*fails == PFRAG_BENCH_MAX_FAILS)
		return -ENOMEM;
	schedule_timeout_idle(1);
	return 0;
}

/*
 * A batch of the contestant's loop. With irqoff, interrupts are off meanwhile, and
 * what it took is all that counts: nothing else ran, and no switch of interrupts
 * inside the allocator is an outermost one (which User-Mode Linux pays for with
 * two system calls of its host).
 */
static u64 pfrag_bench_batch(struct pfrag_bench_thread *thread, u64 n)
{
	struct pfrag_bench_job *job = thread->job;
	unsigned long flags;
	u64 start;
	u64 did;

	if (!job->params->irqoff)
		return job->ops->loop[thread->id](thread, n);

	local_irq_save(flags);
	start = pfrag_compat_cycles();
	did = job->ops->loop[thread->id](thread, n);
	thread->batch_cycles += pfrag_compat_cycles() - start;
	local_irq_restore(flags);
	return did;
}

static int pfrag_bench_work(struct pfrag_bench_thread *thread)
{
	struct pfrag_bench_job *job = thread->job;
	unsigned int cpu = job->params->cpus[thread->id];
	bool parallel = pfrag_bench_has_parallel_peer(job);
	u64 chunk = parallel ? PFRAG_BENCH_PEER_CHUNK : PFRAG_BENCH_CHUNK;
	u64 nr = job->params->nr;
	unsigned int fails = 0;
	int err = 0;

	while (thread->done < nr && !err) {
		u64 n = min(nr - thread->done, chunk);
		u64 seen = pfrag_bench_peers_done(thread);
		u64 did = pfrag_bench_batch(thread, n);

		if (did) {
			WRITE_ONCE(thread->done, thread->done + did);
			fails = 0;
			/* On our CPU a peer had better wait until we must. */
			if (parallel)
				pfrag_bench_wake_peers(job);
		}
		if (READ_ONCE(job->stop))
			return -EINTR;
		/* A CPU that went offline hands its threads to others. */
		if (raw_smp_processor_id() != cpu)
			return -ENODEV;
		if (did == n)
			cond_resched();
		else if (thread->stall == PFRAG_BENCH_STALL_MEMORY)
			err = pfrag_bench_wait_for_memory(thread, &fails);
		else
			err = pfrag_bench_wait_for_peer(thread, seen);
	}
	return err;
}

static int pfrag_bench_thread_fn(void *data)
{
	struct pfrag_bench_thread *thread = data;
	struct pfrag_bench_job *job = thread->job;

	wait_for_completion(&job->go);
	thread->start_ns = ktime_get_ns();
	thread->start_cycles = pfrag_compat_cycles();
	thread->error = pfrag_bench_work(thread);
	thread->end_cycles = pfrag_compat_cycles();
	thread->end_ns = ktime_get_ns();

	/* One thread's failure ends the others'. */
	if (thread->error)
		WRITE_ONCE(job->stop, true);
	/* Pairs with smp_rmb() in pfrag_bench_wait_for_peer(). */
	smp_mb__before_atomic();
	atomic_dec(&job->running);
	wake_up_all(&job->wait);

	/* Stay until we are stopped: the task must not end before that. */
	for (;;) {
		set_current_state(TASK_IDLE);
		if (kthread_should_stop())
			break;
		schedule();
	}
	__set_current_state(TASK_RUNNING);
	return 0;
}

/* Jobs. */

static int pfrag_bench_create_threads(struct pfrag_bench_job *job)
{
	const struct pfrag_bench_params *params = job->params;
	struct pfrag_bench_thread *thread;
	struct task_struct *task;
	unsigned int i;

	for (i = 0; i < job->ops->nr_threads; i++) {
		thread = &job->threads[i];
		thread->job = job;
		thread->id = i;
		if (pfrag_bench_step_fails())
			task = ERR_PTR(-ENOMEM);
		else
			task = kthread_create_on_node(pfrag_bench_thread_fn,
						      thread,
						      cpu_to_node(params->cpus[i]),
						      "pfrag_bench/%u", i);
		if (IS_ERR(task))
			goto err_stop;
		kthread_bind(task, params->cpus[i]);
		thread->task = task;
	}
	return 0;

err_stop:
	/* Those that were made have never run, and never will. */
	while (i--)
		kthread_stop(job->threads[i].task);
	return PTR_ERR(task);
}

/* What a thread took: from its start to its end, or in its batches alone. */
static u64 pfrag_bench_thread_ns(const struct pfrag_bench_thread *thread)
{
	u64 cycles = thread->end_cycles - thread->start_cycles;
	u64 ns = thread->end_ns - thread->start_ns;
	u64 cycles_per_ms;

	if (!thread->job->params->irqoff || !ns)
		return ns;
	/* The job itself calibrates the counter: it lasts long enough for that. */
	cycles_per_ms = div64_u64(cycles * 1000000, ns);
	if (!cycles_per_ms)
		return ns;
	return div64_u64(thread->batch_cycles * 1000000, cycles_per_ms);
}

/* The figures of threads that have ended, with @err or well; or why they are wrong. */
static int pfrag_bench_collect(struct pfrag_bench_result *result,
			       const struct pfrag_bench_job *job, int err)
{
	u64 start = U64_MAX;
	u64 end = 0;
	unsigned int i;

	for (i = 0; i < job->ops->nr_threads; i++) {
		const struct pfrag_bench_thread *thread = &job->threads[i];

		result->done[i] = thread->done;
		result->thread_ns[i] = pfrag_bench_thread_ns(thread);
		result->failed_allocs += thread->failed_allocs;
		start = min(start, thread->start_ns);
		end = max(end, thread->end_ns);
		/* A thread that says it is done has done all it was asked. */
		if (!err && thread->done != job->params->nr)
			err = -EIO;
	}
	result->ns = job->params->irqoff ? result->thread_ns[0] : end - start;
	return err;
}

static int pfrag_bench_run_threads(struct pfrag_bench_job *job,
				   const bool *stop,
				   struct pfrag_bench_result *result)
{
	unsigned int nr = job->ops->nr_threads;
	unsigned int i;
	long left;
	int err;

	err = pfrag_bench_create_threads(job);
	if (err)
		return err;

	atomic_set(&job->running, nr);
	for (i = 0; i < nr; i++)
		wake_up_process(job->threads[i].task);
	complete_all(&job->go);

	/* Whoever sets *stop does not know the job: look now and then. */
	do {
		left = wait_event_interruptible_timeout(job->wait,
							!atomic_read(&job->running),
							HZ / 10);
	} while (!left && !READ_ONCE(*stop));
	if (left <= 0) {
		WRITE_ONCE(job->stop, true);
		wake_up_all(&job->wait);
		err = -EINTR;
	}
	for (i = 0; i < nr; i++)
		kthread_stop(job->threads[i].task);

	/* What went wrong first counts, not whom it stopped. */
	for (i = 0; i < nr; i++)
		if (job->threads[i].error && (!err || err == -EINTR))
			err = job->threads[i].error;
	return pfrag_bench_collect(result, job, err);
}

/*
 * Run @ops once with @params and say in @result what came out, unless @stop becomes
 * true or a signal arrives. The error, if any, stands in the result as well.
 */
static int pfrag_bench_one_job(const struct pfrag_bench_params *params,
			       const struct pfrag_bench_ops *ops,
			       const bool *stop,
			       struct pfrag_bench_result *result)
{
	long blocks = pfrag_live_blocks();
	long pages = pfrag_live_pages();
	struct pfrag_bench_job *job = NULL;

	if (!pfrag_bench_step_fails())
		job = kzalloc(sizeof(*job), GFP_KERNEL);
	if (!job) {
		result->error = -ENOMEM;
		return result->error;
	}
	job->params = params;
	job->ops = ops;
	init_completion(&job->go);
	init_waitqueue_head(&job->wait);

	result->error = ops->setup(job);
	if (!result->error) {
		result->error = pfrag_bench_run_threads(job, stop, result);
		ops->cleanup(job);
	}
	kfree(job);

	result->leaked_blocks = pfrag_live_blocks() - blocks;
	result->leaked_pages = pfrag_live_pages() - pages;
	if (!result->error && (result->leaked_blocks || result->leaked_pages))
		result->error = -EIO;
	return result->error;
}

#endif /* PFRAG_BENCH_JOB_H */
