package postgres_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/pgtest"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

// TestWatchOfAnotherProcess has one store watch what another one commits.
func TestWatchOfAnotherProcess(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		poll  time.Duration // of the one that watches
		upset func(t *testing.T, url string, writes, watches *postgres.Store)
	}{
		{"by_its_word", time.Hour, func(*testing.T, string, *postgres.Store, *postgres.Store) {}},
		{"when_its_listener_was_killed", time.Hour, func(t *testing.T, url string, _, _ *postgres.Store) {
			n, err := pgtest.Shared(t).KillBackends(t.Context(), url, 10, "perdure listener")
			if err != nil || n == 0 {
				t.Fatalf("killed %d listeners: %v", n, err)
			}
		}},
		{"when_the_word_is_lost", 20 * time.Millisecond, func(_ *testing.T, _ string, writes, watches *postgres.Store) {
			postgres.Mute(writes, watches)
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			writes, watches := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url, Poll: c.poll})
			begun(t, writes)
			ctx, stop := context.WithTimeout(t.Context(), patience)
			defer stop()
			seen, done := make(chan int64), make(chan error, 1)
			go func() {
				done <- watches.Watch(ctx, theSession, 0, func(f store.Frame) error {
					select {
					case seen <- f.Event.Seq:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				})
			}()
			if err := watches.AwaitListening(ctx, theSession); err != nil {
				t.Fatal(err)
			}
			c.upset(t, url, writes, watches)

			for want := int64(1); want <= 20; want++ {
				write(t, writes, func(tx store.Tx) error {
					return tx.Journal().Append(theSession, []perdure.Event{titled(fmt.Sprint("event_", want))})
				})
				select {
				case got := <-seen:
					if got != want {
						t.Fatalf("got event %d, want %d", got, want)
					}
				case err := <-done:
					t.Fatalf("watch ended before event %d: %v", want, err)
				}
			}
			stop()
			if err := <-done; !errors.Is(err, context.Canceled) {
				t.Errorf("got %v, want canceled", err)
			}
		})
	}
}

// TestFenceOfAnotherProcess lets another process acquire a driver's session. Later writes of the
// first driver are refused, even in a transaction that had begun before.
func TestFenceOfAnotherProcess(t *testing.T) {
	t.Parallel()
	url := database(t)
	old, next := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	begun(t, old)
	write(t, old, func(tx store.Tx) error { _, err := tx.Sessions().Acquire(theSession, "worker_old"); return err })
	taken := make(chan error, 1)
	began, committed := false, false

	err := old.InTx(t.Context(), func(tx store.Tx) error {
		if _, err := tx.Sessions().Lock(theSession, 1); err != nil {
			return err
		}
		if !began {
			began = true
			go func() {
				taken <- next.InTx(t.Context(), func(tx store.Tx) error {
					_, err := tx.Sessions().Acquire(theSession, "worker_next")
					if events, err := tx.Journal().Events(theSession, 0, 0); err == nil {
						committed = len(events) == 1
					}
					return err
				})
			}()
			waitForLock(t, url) // the rival waits for the lock
		}
		return tx.Journal().Append(theSession, []perdure.Event{titled("event_1")})
	})
	if err := errors.Join(err, <-taken); err != nil {
		t.Fatal(err)
	}
	late := old.InTx(t.Context(), func(tx store.Tx) error {
		_, err := tx.Sessions().Lock(theSession, 1)
		return err
	})

	if !errors.Is(late, perdure.Lost) {
		t.Errorf("got %v, want lost", late)
	}
	if !committed {
		t.Error("the session was acquired before the transaction that held it had ended")
	}
}

// TestLeaseIsAskedUnderLock has a worker's lease end while a transaction that checked it is open.
// The process that declares the worker dead waits for that transaction, and a later transaction of
// the worker fails.
func TestLeaseIsAskedUnderLock(t *testing.T) {
	t.Parallel()
	url := database(t)
	own, other := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	write(t, own, func(tx store.Tx) error {
		return tx.Workers().Put(store.Worker{ID: "worker_1", LeaseUntil: tx.Now().Add(time.Hour)})
	})
	buried, order := make(chan error, 1), make(chan string, 2)

	inside := make(chan struct{})
	go func() {
		<-inside
		err := other.InTx(context.Background(), func(tx store.Tx) error { return tx.Workers().Remove("worker_1") })
		order <- "buried"
		buried <- err
	}()
	err := own.InTx(t.Context(), func(tx store.Tx) error {
		if _, err := tx.Workers().Get("worker_1"); err != nil {
			return err
		}
		close(inside)
		waitForLock(t, url)
		order <- "asked"
		return nil
	})

	if err := errors.Join(err, <-buried); err != nil {
		t.Fatal(err)
	}
	if first := <-order; first != "asked" {
		t.Errorf("the worker was %s while its own transaction ran", first)
	}
}

// TestBeatWaitsForNobody has another process hold a session and a task in it, and a transaction of
// a worker wait for them. The worker's heartbeat, and its work in other sessions, do not wait.
func TestBeatWaitsForNobody(t *testing.T) {
	t.Parallel()
	url := database(t)
	own, other := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	begun(t, own)
	write(t, own, func(tx store.Tx) error {
		_, _, err := tx.Tasks().Create(perdure.Task{ID: "task_0", Session: theSession, Worker: "worker_1", Attempt: 1,
			State: perdure.TaskRunning})
		return errors.Join(err, tx.Workers().Put(store.Worker{ID: "worker_1", LeaseUntil: tx.Now().Add(time.Hour)}),
			tx.Sessions().Create(store.Session{ID: otherSession, CreatedAt: noon}))
	})
	fenced := func(ctx context.Context, session perdure.SessionID) error {
		return own.InTx(ctx, func(tx store.Tx) error {
			if _, err := tx.Workers().Get("worker_1"); err != nil {
				return err
			}
			return tx.Journal().Append(session, []perdure.Event{titled("event_of_" + string(session))})
		})
	}
	inside, leave, held, waits := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		held <- other.InTx(context.Background(), func(tx store.Tx) error {
			_, err := tx.Tasks().Update("", "task_0", perdure.TaskUpdate{Attempt: 1, Detail: "held"})
			close(inside)
			<-leave
			return err
		})
	}()
	<-inside
	go func() { waits <- fenced(t.Context(), theSession) }()
	waitForLock(t, url)
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()

	beat := own.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Workers().Get("worker_1"); err != nil {
			return err
		}
		beat, err := tx.Workers().Renew("worker_1", time.Hour)
		if err == nil && len(beat.Tasks) != 1 {
			err = fmt.Errorf("the heartbeat returned %d tasks, want 1", len(beat.Tasks))
		}
		return err
	})
	work := fenced(ctx, otherSession)
	close(leave)

	if err := errors.Join(beat, work); err != nil {
		t.Errorf("beside a session that is held: %v", err)
	}
	if err := errors.Join(<-held, <-waits); err != nil {
		t.Error(err)
	}
}

// TestBurialSeesTheBeat has a worker send a heartbeat while another process is about to declare it
// dead. The worker stays alive.
func TestBurialSeesTheBeat(t *testing.T) {
	t.Parallel()
	url := database(t)
	own, other := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	write(t, own, func(tx store.Tx) error { return tx.Workers().Put(store.Worker{ID: "worker_1", LeaseUntil: tx.Now()}) })
	buried := make(chan error, 1)
	began := false

	write(t, own, func(tx store.Tx) error {
		if _, err := tx.Workers().Renew("worker_1", time.Hour); err != nil || began {
			return err
		}
		began = true
		go func() {
			buried <- other.InTx(context.Background(), func(tx store.Tx) error { return tx.Workers().MarkDead("worker_1") })
		}()
		waitForLock(t, url)
		return nil
	})
	if err := <-buried; err != nil {
		t.Fatal(err)
	}

	if err := own.View(t.Context(), func(r store.Reader) error {
		_, err := r.Workers().Get("worker_1")
		return err
	}); err != nil {
		t.Errorf("after the heartbeat: %v", err)
	}
}

// TestOneHasARole has several processes ask for a role at once. One has it until its transaction
// ends, the others are refused at once, and another role is free.
func TestOneHasARole(t *testing.T) {
	t.Parallel()
	url := database(t)
	own, other := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	var first, again, second, free bool // of the run that commits

	write(t, own, func(tx store.Tx) (err error) {
		if first, err = tx.Workers().Elect("one"); err != nil {
			return err
		}
		if again, err = tx.Workers().Elect("one"); err != nil {
			return err
		}
		second, free = elect(t, other, "one"), elect(t, other, "two")
		return nil
	})

	if !first || !again {
		t.Errorf("the role is free: got %v, and asked again %v", first, again)
	}
	if second {
		t.Error("two processes have the role")
	}
	if !free {
		t.Error("another role is not free")
	}
	if !elect(t, other, "one") {
		t.Error("the role is not free after the end")
	}
}

// TestPausedProcessLosesItsRole pauses a process that has a role. Another one gets it.
func TestPausedProcessLosesItsRole(t *testing.T) {
	t.Parallel()
	url := database(t)
	own, other := open(t, postgres.Config{URL: url, Idle: 300 * time.Millisecond}), open(t, postgres.Config{URL: url})
	paused, again := false, false

	write(t, own, func(tx store.Tx) error {
		if again = paused; again {
			return nil
		}
		if has, err := tx.Workers().Elect("one"); err != nil || !has {
			return cmp.Or(err, errors.New("the role is not free"))
		}
		paused = true
		for deadline := time.Now().Add(patience); !elect(t, other, "one"); {
			// the paused process sends nothing until it has lost the role
			if time.Now().After(deadline) {
				return errors.New("a paused process keeps the role")
			}
		}
		return nil
	})

	if !again {
		t.Error("the transaction of a paused process is committed")
	}
}

// elect asks for a role in a transaction of its own, and reports whether it was given.
func elect(t *testing.T, s *postgres.Store, role string) (has bool) {
	t.Helper()
	write(t, s, func(tx store.Tx) (err error) {
		has, err = tx.Workers().Elect(role)
		return err
	})
	return has
}

// TestPruningWaitsForNobody has another process lock a prunable task. The tasks after it are pruned
// meanwhile, and it is pruned later. A task that an earlier version recorded as ended, and that
// must stay, is read once.
func TestPruningWaitsForNobody(t *testing.T) {
	t.Parallel()
	const late = 120
	named := func(i int) perdure.TaskID { return perdure.TaskID(fmt.Sprint("task_", late+i)) }
	url := database(t)
	own, other := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})
	begun(t, own)
	write(t, own, func(tx store.Tx) (err error) {
		for i := range late + 3 { // more than a page of them come first
			ended := perdure.Task{
				ID: perdure.TaskID(fmt.Sprint("task_", i)), Session: theSession,
				Attempt: 1, State: perdure.TaskSucceeded,
				FinishedAt: noon.Add(time.Duration(i) * time.Second), Delivery: perdure.Manual,
			}
			if i < late {
				ended.State = perdure.TaskUnknown
			}
			_, _, created := tx.Tasks().Create(ended)
			err = errors.Join(err, created)
		}
		return err
	})
	db := postgres.OpenSQL(t, url)
	if _, err := db.Exec(`UPDATE task SET ended_us = 1 WHERE state = 'unknown'`); err != nil {
		t.Fatal(err)
	}
	prune := func(limit int) (ids []perdure.TaskID) {
		ctx, stop := context.WithTimeout(t.Context(), 5*time.Second)
		defer stop()
		err := own.InTx(ctx, func(tx store.Tx) error {
			gone, err := tx.Tasks().Prune(noon.Add(time.Hour), limit)
			ids = nil
			for _, task := range gone {
				ids = append(ids, task.ID)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
		return ids
	}
	inside, leave, held := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		held <- other.InTx(context.Background(), func(tx store.Tx) error {
			_, err := tx.Tasks().Get("", named(0))
			close(inside)
			<-leave
			return err
		})
	}()
	<-inside

	first := prune(1)
	close(leave)
	if err := <-held; err != nil {
		t.Fatal(err)
	}
	rest := prune(0)

	if !slices.Equal(first, []perdure.TaskID{named(1)}) || !slices.Equal(rest, []perdure.TaskID{named(0), named(2)}) {
		t.Errorf("pruned %v, then %v; want the second, then the first and the third", first, rest)
	}
	var met int
	if err := db.QueryRow(`SELECT COUNT(*) FROM task WHERE ended_us <> 0`).Scan(&met); err != nil || met != 0 {
		t.Errorf("%d tasks that must stay would be read again, %v", met, err)
	}
}

// TestCapsHoldOverProcesses has two processes add rows that are counted in the same transaction.
// The count never exceeds the cap.
func TestCapsHoldOverProcesses(t *testing.T) {
	t.Parallel()
	const limit, rivals = 5, 24
	cases := []struct {
		name  string
		count func(tx store.Tx) (int, error)
		add   func(tx store.Tx, i int) error
	}{
		{"of_the_tasks_of_a_session", func(tx store.Tx) (int, error) { return tasksOf(tx, theSession) }, addTask},
		{"of_all_tasks", func(tx store.Tx) (int, error) { return tasksOf(tx, "") }, addTask},
		{"of_the_subagents_of_a_tree", func(tx store.Tx) (int, error) {
			n, err := tx.Spawns().Count(theSession)
			return n.Total, err
		}, func(tx store.Tx, i int) error {
			key := perdure.CallKey{Session: theSession, Call: perdure.CallID(fmt.Sprint("call_", i))}
			_, _, err := tx.Spawns().Claim(store.Spawn{Key: key, Root: theSession, Token: "token"})
			return err
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := database(t)
			stores := []*postgres.Store{open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})}
			begun(t, stores[0])
			errs := make([]error, rivals)

			var all sync.WaitGroup
			for i := range rivals {
				all.Go(func() {
					errs[i] = stores[i%2].InTx(t.Context(), func(tx store.Tx) error {
						n, err := c.count(tx)
						if err != nil || n >= limit {
							return err
						}
						return c.add(tx, i)
					})
				})
			}
			all.Wait()

			if err := errors.Join(errs...); err != nil {
				t.Fatal(err)
			}
			write(t, stores[0], func(tx store.Tx) error {
				if n, err := c.count(tx); err != nil || n != limit {
					t.Errorf("got %d, %v, want %d", n, err, limit)
				}
				return nil
			})
		})
	}
}

func tasksOf(tx store.Tx, session perdure.SessionID) (n int, err error) {
	counts, err := tx.Tasks().Count(perdure.TaskRunning, session)
	for _, c := range counts {
		n += c.N
	}
	return n, err
}

func addTask(tx store.Tx, i int) error {
	_, _, err := tx.Tasks().Create(perdure.Task{ID: perdure.TaskID(fmt.Sprint("task_", i)), Session: theSession,
		Attempt: 1, State: perdure.TaskRunning})
	return err
}

// TestPositionsAreOnce has two processes add rows at once. No two rows have the same position, and
// a reader that pages through messages misses none that was added meanwhile.
func TestPositionsAreOnce(t *testing.T) {
	t.Parallel()
	const writers, each = 6, 20
	url := database(t)
	stores := []*postgres.Store{open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url})}
	begun(t, stores[0])
	write(t, stores[0], func(tx store.Tx) error { return addTask(tx, 0) })
	errs := make([]error, writers)
	var all sync.WaitGroup
	written := make(chan struct{})
	for w := range writers {
		all.Go(func() {
			for i := range each {
				m := perdure.TaskMessage{ID: perdure.TaskMessageID(fmt.Sprintf("msg_%d_%d", w, i)), Task: "task_0",
					Direction: perdure.Inbound}
				err := stores[w%2].InTx(t.Context(), func(tx store.Tx) error { return tx.Tasks().AddMessage(m) })
				errs[w] = errors.Join(errs[w], err)
			}
		})
	}
	go func() { all.Wait(); close(written) }()

	seen := map[perdure.TaskMessageID]int{}
	var last perdure.TaskMessageID
	for over := false; ; {
		var page []perdure.TaskMessage
		err := stores[0].View(t.Context(), func(r store.Reader) (err error) {
			page, err = r.Tasks().Messages("task_0", last, 7)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range page {
			seen[m.ID]++
			last = m.ID
		}
		if len(page) > 0 {
			continue
		}
		if over {
			break
		}
		select {
		case <-written:
			over = true // one more read
		default:
		}
	}

	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	if len(seen) != writers*each {
		t.Errorf("saw %d messages, want %d", len(seen), writers*each)
	}
	for id, n := range seen {
		if n != 1 {
			t.Errorf("saw %s %d times", id, n)
		}
	}
}

// TestPlacesOfTwoSessions adds a task to each of two sessions at the same time, in transactions
// that do not see each other.
func TestPlacesOfTwoSessions(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, postgres.Config{URL: url})
	met := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	var all sync.WaitGroup
	for i, session := range []perdure.SessionID{theSession, otherSession} {
		all.Go(func() {
			id := perdure.TaskID(fmt.Sprint("task_", i))
			err := s.InTx(t.Context(), func(tx store.Tx) error {
				_, _, err := tx.Tasks().Create(perdure.Task{ID: id, Session: session, Attempt: 1,
					State: perdure.TaskRunning})
				close(met[i])
				<-met[1-i]
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()

	var places int
	err := postgres.OpenSQL(t, url).QueryRow(`SELECT COUNT(DISTINCT position) FROM task`).Scan(&places)
	if err != nil || places != 2 {
		t.Errorf("got %d slots for two tasks, %v", places, err)
	}
}
