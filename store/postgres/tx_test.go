package postgres_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/postgres"
)

const otherSession = perdure.SessionID("session_00000000000070008000000000000002")

func contains(err error, words string) bool {
	return err != nil && strings.Contains(err.Error(), words)
}

// waitForLock waits until a transaction waits for a lock in a database.
func waitForLock(t *testing.T, url string) {
	t.Helper()
	db := postgres.OpenSQL(t, url)
	look, end := time.NewTicker(5*time.Millisecond), time.After(patience)
	defer look.Stop()
	for {
		var n int
		err := db.QueryRow(`SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`).Scan(&n)
		if err != nil {
			t.Error(err)
			return
		}
		if n > 0 {
			return
		}
		select {
		case <-look.C:
		case <-end:
			t.Error("no transaction waits for a lock")
			return
		}
	}
}

// holding begins a transaction that locks theSession until release is called, which returns how it
// ended.
func holding(t *testing.T, s store.Store) (release func() error) {
	t.Helper()
	inside, leave, done := make(chan struct{}, 1), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.InTx(context.Background(), func(tx store.Tx) error {
			if err := tx.Journal().Append(theSession, []perdure.Event{titled("event_held")}); err != nil {
				return err
			}
			select {
			case inside <- struct{}{}:
			default: // runs again
			}
			<-leave
			return nil
		})
	}()
	select {
	case <-inside:
	case err := <-done:
		t.Fatal(err)
	}
	return func() error {
		close(leave)
		return <-done
	}
}

// TestContextEndsTheWaitForALock: the caller gets its answer, and the transaction is rolled back.
func TestContextEndsTheWaitForALock(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, postgres.Config{URL: url})
	begun(t, s)
	release := holding(t, s)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		waitForLock(t, url)
		cancel()
	}()

	err := s.InTx(ctx, func(tx store.Tx) error { return tx.Journal().Append(theSession, []perdure.Event{titled("event_late")}) })

	if !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want canceled", err)
	}
	if err := release(); err != nil {
		t.Fatal(err)
	}
	if got := journal(t, s); len(got) != 1 || got[0].ID != "event_held" {
		t.Errorf("got %v, want the event of the one that was not canceled", got)
	}
}

// TestViewsHaveConnectionsOfTheirOwn: views do not wait for transactions that wait for each other.
func TestViewsHaveConnectionsOfTheirOwn(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, postgres.Config{URL: url, Writers: 2})
	begun(t, s)
	release := holding(t, s)
	waits := make(chan error, 3)
	for range 3 {
		go func() { waits <- s.InTx(t.Context(), grow) }()
	}
	waitForLock(t, url)

	if got := journal(t, s); len(got) != 0 {
		t.Errorf("got %v, want what was committed", got)
	}

	err := release()
	for range 3 {
		err = errors.Join(err, <-waits)
	}
	if err != nil || grown(t, s) != 3 {
		t.Errorf("got %v and %d bytes, want 3", err, grown(t, s))
	}
}

// TestDeadlockRunsAgain has two transactions lock two sessions in opposite order. Both succeed.
func TestDeadlockRunsAgain(t *testing.T) {
	t.Parallel()
	s := open(t, postgres.Config{URL: database(t)})
	begun(t, s)
	write(t, s, func(tx store.Tx) error { return tx.Sessions().Create(store.Session{ID: otherSession, CreatedAt: noon}) })
	met := [2]chan struct{}{make(chan struct{}), make(chan struct{})}
	runs := [2]int{}
	both := func(i int, first, second perdure.SessionID) error {
		return s.InTx(context.Background(), func(tx store.Tx) error {
			runs[i]++
			if _, err := tx.Sessions().Get(first); err != nil {
				return err
			}
			if runs[i] == 1 {
				close(met[i])
				<-met[1-i]
			}
			_, err := tx.Sessions().Get(second)
			return err
		})
	}
	done := make(chan error, 1)
	go func() { done <- both(0, theSession, otherSession) }()

	err := errors.Join(both(1, otherSession, theSession), <-done)

	if err != nil || runs[0]+runs[1] < 3 {
		// the one that runs again may be faster than the other one, and deadlock with it once more
		t.Errorf("got %v after %v runs, want success, and at least one run more than there are transactions", err, runs)
	}
}

// TestPausedProcess pauses a process in the middle of a transaction. Another process gets its
// locks, and when it wakes up it runs again, on the current rows.
func TestPausedProcess(t *testing.T) {
	t.Parallel()
	url := database(t)
	paused, other := open(t, postgres.Config{URL: url, Idle: 200 * time.Millisecond}),
		open(t, postgres.Config{URL: url})
	begun(t, paused)
	release := holding(t, paused)

	write(t, other, func(tx store.Tx) error {
		return tx.Journal().Append(theSession, []perdure.Event{titled("event_other")})
	})
	err := release()

	got := journal(t, other)
	if err != nil || len(got) != 2 || got[0].ID != "event_other" || got[1].ID != "event_held" {
		t.Errorf("got %v and %v, want the other's event, then the one of the paused", err, got)
	}
}

// TestNothingIsLeftOpen releases a connection in the middle of a transaction: its locks are
// released.
func TestNothingIsLeftOpen(t *testing.T) {
	t.Parallel()
	url := database(t)
	s, other := open(t, postgres.Config{URL: url}), open(t, postgres.Config{URL: url, RetryTimeout: 6 * time.Second})
	begun(t, s)
	if err := s.LeaveOpen(t.Context(), `SELECT id FROM session FOR UPDATE`); err != nil {
		t.Fatal(err)
	}

	write(t, other, grow)
}

// TestLongNames stores the longest names that docs/reference/postgres.md promises, and longer ones.
func TestLongNames(t *testing.T) {
	t.Parallel()
	s := open(t, postgres.Config{URL: database(t)})
	begun(t, s)
	dice := rand.New(rand.NewPCG(1, 2))
	text := func(n int) string { // not compressible
		letters := make([]rune, n/2)
		for i := range letters {
			letters[i] = rune(0x80 + dice.IntN(0x700)) // two bytes
		}
		return string(letters)
	}
	file := func(n int) error {
		return s.InTx(t.Context(), func(tx store.Tx) error {
			_, err := tx.Files().Put(theSession, store.File{Path: "/" + text(n-4) + "/f"})
			return err
		})
	}
	call := func(n int) error {
		return s.InTx(t.Context(), func(tx store.Tx) error {
			call := perdure.Call{Key: perdure.CallKey{Session: theSession, Call: perdure.CallID(text(n))},
				Token: "token", State: perdure.CallRunning}
			_, _, err := tx.Calls().Claim(call, func(perdure.WorkerID) bool { return false })
			return err
		})
	}

	if err := errors.Join(file(1300), call(2600)); err != nil {
		t.Errorf("long ones: %.100v …", err)
	}
	for _, err := range []error{file(4000), call(8000)} {
		if !errors.Is(err, perdure.Limit) || !contains(err, "use a shorter one") {
			t.Errorf("longer ones: got %.100v …, want limit", err)
		}
	}
}

// TestHoldSeesTheRow has a transaction wait for a session that has no row yet. Once the row exists,
// the transaction locks it.
func TestHoldSeesTheRow(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, postgres.Config{URL: url})
	files := func(tx store.Tx) error { _, err := tx.Files().List(theSession, "/", false); return err }
	inside, leave, made, held := make(chan struct{}), make(chan struct{}), make(chan error, 1), make(chan error, 1)
	go func() {
		made <- s.InTx(context.Background(), func(tx store.Tx) error {
			err := tx.Sessions().Create(store.Session{ID: theSession, CreatedAt: noon})
			close(inside)
			<-leave
			return err
		})
	}()
	<-inside
	go func() {
		held <- s.InTx(context.Background(), func(tx store.Tx) error {
			if err := files(tx); err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(context.Background(), 500*time.Millisecond)
			defer stop()
			if err := s.InTx(ctx, func(tx store.Tx) error {
				_, err := tx.Sessions().Lock(theSession, 0)
				return err
			}); err == nil {
				return errors.New("another one has locked the session's row meanwhile")
			}
			return nil
		})
	}()
	waitForLock(t, url)
	close(leave)

	if err := errors.Join(<-made, <-held); err != nil {
		t.Error(err)
	}
}

// TestOrderOfIds: with a linguistic collation, ORDER BY id still compares ids by their bytes, as
// the code assumes.
func TestOrderOfIds(t *testing.T) {
	t.Parallel()
	var words, bytes string
	err := postgres.OpenSQL(t, database(t)).QueryRow(`WITH ids AS (SELECT 'session_' || md5(CAST(n AS TEXT)) AS id FROM generate_series(1, 5000) AS n)
		SELECT string_agg(id, ' ' ORDER BY id COLLATE "en-x-icu"), string_agg(id, ' ' ORDER BY id COLLATE "C") FROM ids`).Scan(&words, &bytes)
	if err != nil || words == "" || words != bytes {
		t.Errorf("got another order of ids with a linguistic collation than by bytes, %v", err)
	}
}

// TestChildOfTwo registers one child under two handles at once: one succeeds, and the other fails.
func TestChildOfTwo(t *testing.T) {
	t.Parallel()
	url := database(t)
	s := open(t, postgres.Config{URL: url})
	begun(t, s)
	keys := []perdure.CallKey{{Session: theSession, Call: "call_1"}, {Session: theSession, Call: "call_2"}}
	write(t, s, func(tx store.Tx) (err error) {
		for _, key := range keys {
			_, _, claim := tx.Spawns().Claim(store.Spawn{Key: key, Root: theSession, Token: "token"})
			err = errors.Join(err, claim)
		}
		return err
	})
	leave, inside, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		done <- s.InTx(context.Background(), func(tx store.Tx) error {
			err := tx.Spawns().RegisterChild(keys[0], "token", otherSession)
			close(inside)
			<-leave
			return err
		})
	}()
	<-inside
	go func() {
		waitForLock(t, url)
		close(leave)
	}()

	second := s.InTx(t.Context(), func(tx store.Tx) error { return tx.Spawns().RegisterChild(keys[1], "token", otherSession) })

	if first := <-done; first != nil || !errors.Is(second, perdure.Conflict) {
		t.Errorf("got %v and %v, want success and a conflict", first, second)
	}
}

// TestTextThatIsNone: an id that the database cannot store is refused before it is sent.
func TestTextThatIsNone(t *testing.T) {
	t.Parallel()
	s := open(t, postgres.Config{URL: database(t)})
	for _, id := range []perdure.SessionID{"session\x00", "session\xff"} {
		err := s.View(t.Context(), func(r store.Reader) error { _, err := r.Sessions().Get(id); return err })
		if !errors.Is(err, perdure.Invalid) || !contains(err, "not UTF-8") {
			t.Errorf("%q: got %v, want invalid", id, err)
		}
	}
}
