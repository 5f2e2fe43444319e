package effect

import (
	"context"
	"sync"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/store"
)

// pages is a store that records the largest number of events read at once, and how many were read
// in transactions.
type pages struct {
	store.Store
	mu      sync.Mutex
	maxRead int // guarded by mu
	inTx    int // guarded by mu
}

type pagedReader struct {
	store.Reader
	by *pages
}

// pagedReaderJournal overrides a part of one noun.
type pagedReaderJournal struct {
	store.JournalView
	pagedReader
}

func (r pagedReader) Journal() store.JournalView { return pagedReaderJournal{r.Reader.Journal(), r} }

type pagedTx struct {
	store.Tx
	by *pages
}

// pagedTxJournal overrides a part of one noun.
type pagedTxJournal struct {
	store.Journal
	pagedTx
}

func (tx pagedTx) Journal() store.Journal { return pagedTxJournal{tx.Tx.Journal(), tx} }

// pagedTxReader reads what the transaction shows.
type pagedTxReader struct {
	store.Reader
	tx pagedTx
}

func (tx pagedTx) Reader() store.Reader { return pagedTxReader{tx.Tx.Reader(), tx} }

func (r pagedTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (p *pages) View(ctx context.Context, fn func(store.Reader) error) error {
	return p.Store.View(ctx, func(r store.Reader) error { return fn(pagedReader{r, p}) })
}

func (p *pages) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return p.Store.InTx(ctx, func(tx store.Tx) error { return fn(pagedTx{tx, p}) })
}

func (p *pages) read(n, inTx int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.maxRead = max(p.maxRead, n)
	p.inTx += inTx
}

func (r pagedReaderJournal) Events(id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	found, err := r.JournalView.Events(id, after, limit)
	r.by.read(len(found), 0)
	return found, err
}

func (tx pagedTxJournal) Events(id perdure.SessionID, after int64, limit int) ([]perdure.Event, error) {
	found, err := tx.Journal.Events(id, after, limit)
	tx.by.read(len(found), len(found))
	return found, err
}

// TestMuchByOthers appends many events between two commits of a driver, like a call that writes
// many files. The driver folds them page by page, and none of them within a commit. A few events
// cost no extra view.
func TestMuchByOthers(t *testing.T) {
	t.Parallel()
	e, id := bed(t, nil)
	seen := &pages{Store: e.core.Store}
	e.core.Store, e.core.Work = seen, seen
	others := func(facts ...perdure.Fact) {
		t.Helper()
		var events []perdure.Event
		for _, fact := range facts {
			events = append(events, perdure.Event{Session: id, Actor: core.ActorRuntime, Fact: fact})
		}
		err := seen.InTx(t.Context(), func(tx store.Tx) error {
			core.Stamp(events, tx.Now())
			return tx.Journal().Append(id, events)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	files := func(n int) (facts []perdure.Fact) {
		for range n {
			facts = append(facts, perdure.FileWritten{Path: "/a", SizeBytes: 1})
		}
		return facts
	}
	others(perdure.MessageReceived{Message: perdure.Text("go")})
	d, _, err := e.Acquire(t.Context(), id, core.Grant{})
	if err != nil {
		t.Fatal(err)
	}
	before := d.Session()
	seq := before.Seq
	seen.inTx = 0

	for _, c := range []struct{ written, inCommit int }{{3*core.FoldBatch + 7, 0}, {core.FoldBatch, core.FoldBatch},
		{2 * core.FoldBatch, 0}} {
		others(files(c.written)...)
		seq += int64(c.written)
		seen.maxRead, seen.inTx = 0, 0
		if _, err := e.Commit(t.Context(), d, nil); err != nil {
			t.Fatal(err)
		}
		if d.Session().Seq != seq || seen.inTx != c.inCommit || seen.maxRead > core.FoldBatch {
			t.Errorf("%d events: the fold is at %d, want %d; %d were read in commits, want %d; at most %d at once",
				c.written, d.Session().Seq, seq, seen.inTx, c.inCommit, seen.maxRead)
		}
	}
	if before.Seq != seq-int64(6*core.FoldBatch+7) {
		t.Errorf("the returned fold was changed: it is at %d", before.Seq)
	}

	others(files(2*core.FoldBatch + 1)...)
	seen.maxRead, seen.inTx = 0, 0
	again, _, err := e.Acquire(t.Context(), id, core.Grant{}) // it starts from the cached session
	if err != nil || again.Session().Seq != seq+2*core.FoldBatch+1 || seen.inTx > 0 || seen.maxRead > core.FoldBatch {
		t.Errorf("acquired again: %v, at %d, %d read in commits, at most %d at once", err, again.Session().Seq,
			seen.inTx, seen.maxRead)
	}
	e.Forget(id)
	seen.maxRead, seen.inTx = 0, 0
	cold, _, err := e.Acquire(t.Context(), id, core.Grant{})
	if err != nil || cold.Session().Seq < seq+2*core.FoldBatch+1 || seen.inTx > 0 || seen.maxRead > core.FoldBatch {
		t.Errorf("acquired without cache: %v, at %d, %d read in commits, at most %d at once", err, cold.Session().Seq,
			seen.inTx, seen.maxRead)
	}
}

// TestTailWithoutSnapshot crashes a process before it stored a snapshot. The next process stores
// it, however few events it adds itself: events that it read do not count as stored in a snapshot.
func TestTailWithoutSnapshot(t *testing.T) {
	t.Parallel()
	e, id := bed(t, nil)
	var events []perdure.Event
	for range snapshotAtRest {
		events = append(events, perdure.Event{Session: id, Actor: core.ActorRuntime,
			Fact: perdure.FileWritten{Path: "/a", SizeBytes: 1}})
	}
	err := e.core.Store.InTx(t.Context(), func(tx store.Tx) error {
		core.Stamp(events, tx.Now())
		return tx.Journal().Append(id, events)
	})
	if err != nil {
		t.Fatal(err)
	}
	e.Forget(id)
	d, _, err := e.Acquire(t.Context(), id, core.Grant{})
	if err != nil {
		t.Fatal(err)
	}
	var snap store.Snapshot
	err = e.core.Store.View(t.Context(), func(r store.Reader) (err error) {
		snap, err = r.Sessions().Snapshot(id)
		return err
	})
	if err != nil || snap.Seq != d.Session().Seq {
		t.Errorf("the snapshot is at %d of %d: %v", snap.Seq, d.Session().Seq, err)
	}
}
