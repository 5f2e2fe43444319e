package effect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/effect/foreground"
	"github.com/perdure/perdure/internal/effect/generation"
	"github.com/perdure/perdure/internal/sessioncache"
	"github.com/perdure/perdure/store"
)

// How many events lie between two snapshots of a session: snapshotEvery while a turn runs, and
// snapshotAtRest when the session is released, so that a short turn needs no extra commit for a
// cache. A snapshot holds the whole session, so its cost grows with the journal. Requiring at least
// 1/snapshotPart of the journal between two snapshots keeps the cost for each event constant.
const (
	snapshotEvery  = 500
	snapshotAtRest = 50
	snapshotPart   = 8
)

// maxCatchUps is how often a step folds the events of others before its commit, if there are more
// than fit into one.
const maxCatchUps = 5

// errReplaced says that the journal is shorter than the fold that this process has: another process
// has removed the session and imported it again. Nothing is committed.
var errReplaced = errors.New("the journal was replaced")

// errBehind says that there are too many events to fold inside a commit. Nothing is committed.
var errBehind = errors.New("too many new events")

// Drive is a session as held by its one driver, under an epoch. It is not safe for concurrent use.
type Drive struct {
	ID            perdure.SessionID
	row           store.Session
	session       *perdure.Session                // as of the last commit
	acquiredTurn  perdure.TurnID                  // the turn that was open when the driver acquired the session
	snapshotSeq   int64                           // sequence number of the last snapshot
	inheritedExec perdure.ExecID                  // the reason step that was open when the driver acquired the session
	claimed       map[perdure.CallID]perdure.Call // claimed by commits of this driver, and not started yet
	Released      bool                            // the last commit released the session
	reportedState string                          // of a subagent: the state that its parent was last notified of
	// Draining stops new claims, because the engine is stopping.
	Draining bool

	grant core.Grant // under which the driver acquired the session
}

// Epoch returns the fencing token of the driver's writes.
func (d *Drive) Epoch() int64 { return d.row.Epoch }

// Session returns the fold as of the last commit. The caller must not change it.
func (d *Drive) Session() *perdure.Session { return d.session }

// OwnedElsewhere is the error of Acquire for a session that another live worker drives. It is of
// kind Lost.
var OwnedElsewhere = core.OwnedElsewhere

// AtAnotherHome is the error of Acquire for a session that only another home can continue now. It
// is of kind Lost.
var AtAnotherHome = core.AtAnotherHome

// HomeName names a home for people.
func HomeName(r store.Reader, id perdure.HomeID) string { return core.HomeName(r, id) }

// ModelCall returns a model call of this session.
func (d *Drive) ModelCall(c perdure.CallModel) generation.ModelCall {
	return generation.ModelCall{
		Session: d.session, Epoch: d.row.Epoch, Command: c,
		Paused:  d.session.Paused != nil && d.inheritedExec == c.Exec,
		Resumed: d.inheritedExec == c.Exec && !c.NotBefore.After(time.Now()),
	}
}

// CallRequest describes a claimed call that is to be run. done is called once with its outcome,
// from another goroutine; it is not called if the engine shuts down. A claim of this drive is
// handed on once.
func (d *Drive) CallRequest(c perdure.RunCall, done func(core.Outcome)) foreground.Request {
	held := d.row
	request := foreground.Request{Session: d.session, Row: &held, Command: c, Done: done}
	if row, ok := d.claimed[c.Call.ID]; ok {
		delete(d.claimed, c.Call.ID)
		request.Claimed = &row
	}
	return request
}

// Acquire acquires a session for this worker and returns the commands that are due. Acquiring the
// session, using the grant and recording the first decisions are one commit. OwnedElsewhere, of
// kind Lost: another worker that is alive drives the session. StaleGrant, of kind Lost: a later
// grant was used.
func (e *Effects) Acquire(
	ctx context.Context, id perdure.SessionID, g core.Grant,
) (*Drive, []perdure.Command, error) {
	for again := true; ; again = false {
		d := &Drive{ID: id, claimed: map[perdure.CallID]perdure.Call{}, grant: g}
		err := e.fold(ctx, d)
		if err == nil && d.session.Turn != nil {
			d.acquiredTurn = d.session.Turn.ID
		}
		var commands []perdure.Command
		if err == nil {
			commands, err = e.commit(ctx, d, nil, true)
		}
		if errors.Is(err, AtAnotherHome) {
			err = errors.Join(err, e.awaitHome(ctx, id))
		}
		switch {
		case err == nil:
			return d, commands, nil
		case errors.Is(err, errReplaced) && again:
			e.core.Folds.Drop(id)
		default:
			return nil, nil, fmt.Errorf("acquire %s: %w", id, err)
		}
	}
}

// awaitHome records that a session has something to do and waits for its home, where a worker then
// finds it (RC26).
func (e *Effects) awaitHome(ctx context.Context, id perdure.SessionID) error {
	return e.core.Work.InTx(context.WithoutCancel(ctx), func(tx store.Tx) error {
		row, err := tx.Sessions().Get(id)
		if err != nil || !e.core.FilesElsewhere(row) || e.core.OtherWorkerAlive(tx.Reader(), row.Worker) || row.Worker == "" && !row.Unread() {
			return err
		}
		return tx.Sessions().AwaitHome(id)
	})
}

// fold loads the session from the cache of this process, or else from snapshot and journal.
func (e *Effects) fold(ctx context.Context, d *Drive) error {
	if last, ok := e.core.Folds.Get(d.ID); ok {
		d.session, d.snapshotSeq = last.Session, last.Saved
		return nil
	}
	return e.core.Store.View(ctx, func(r store.Reader) (err error) {
		d.session, d.snapshotSeq, err = core.FoldFromSnapshot(r, d.ID)
		return err
	})
}

// Commit records outcomes together with what follows from them, and returns the commands that are
// due next. Lost: another driver has the session; stop and write nothing more.
func (e *Effects) Commit(ctx context.Context, d *Drive, outcomes []core.Outcome) ([]perdure.Command, error) {
	commands, err := e.commit(ctx, d, outcomes, false)
	if err != nil {
		return nil, fmt.Errorf("commit %s: %w", d.ID, err)
	}
	return commands, nil
}

func (e *Effects) commit(ctx context.Context, d *Drive, outcomes []core.Outcome, take bool) ([]perdure.Command, error) {
	var step *step
	var failed error
	// The commit runs to its answer even if ctx ends: the code below reads what fn produced, which
	// is valid only once the transaction has returned.
	ctx = e.core.Telemetry.InTurn(context.WithoutCancel(ctx), d.session)
	err := errBehind
	for round := 0; errors.Is(err, errBehind); round++ {
		err = e.core.Work.InTx(ctx, func(tx store.Tx) error {
			step = newStep(e, d, tx)
			step.limitFold = round < maxCatchUps
			return step.run(outcomes, take)
		})
		if errors.Is(err, errBehind) {
			if err := e.catchUp(ctx, d); err != nil {
				return nil, err
			}
		}
	}
	if step != nil {
		defer e.startRouted(ctx, step, &failed)
		for _, call := range step.claimed { // also if the answer was lost: the ledger may have the claims
			e.calls.NoteClaim(call.Token)
		}
	}
	if failed = err; err != nil {
		return nil, err
	}
	e.core.Telemetry.Committed(d.session, step.session, step.newEvents, step.released)
	d.row, d.session, d.Released = step.row, step.session, step.released
	for id, call := range step.claimed {
		d.claimed[id] = call
	}
	e.cache(ctx, d)
	e.core.Folds.Put(sessioncache.Fold{Session: d.session, Saved: d.snapshotSeq})
	if d.session.Turn == nil {
		e.secrets.Vault.DropTurn(d.ID, d.session.HasLiveTask)
	}
	if d.session.Lineage != nil {
		d.reportedState = e.subagents.AfterCommit(ctx, d.session, d.reportedState)
	}
	return step.due, nil
}

// catchUp applies the events that others appended, one page in each view, so that little is left
// to fold inside the driver's next commit.
func (e *Effects) catchUp(ctx context.Context, d *Drive) error {
	for n := core.FoldBatch; n == core.FoldBatch; {
		var next *perdure.Session
		err := e.core.Store.View(ctx, func(r store.Reader) (err error) {
			next = d.session.Successor() // a view may run more than once
			n, err = core.FoldPage(r, next)
			return err
		})
		if err != nil {
			return err
		}
		d.session = next
		// the next driver of the session starts from here
		e.core.Folds.Put(sessioncache.Fold{Session: d.session, Saved: d.snapshotSeq})
	}
	return nil
}

// cache stores a snapshot from time to time and when the session is released, outside the commits
// of the turn. A snapshot is only a cache, so an error does not fail the turn.
func (e *Effects) cache(ctx context.Context, d *Drive) {
	due := int64(snapshotEvery)
	if d.Released {
		due = snapshotAtRest
	}
	if d.session.Seq-d.snapshotSeq < max(due, d.session.Seq/snapshotPart) {
		return
	}
	body, err := perdure.EncodeSnapshot(d.session)
	if err != nil {
		e.core.Log.Error("snapshot not encoded", "session", d.ID, "error", err)
		return
	}
	snapshot := store.Snapshot{Seq: d.session.Seq, Version: perdure.FoldVersion, Body: body}
	err = e.core.Work.InTx(ctx, func(tx store.Tx) error {
		if _, err := tx.Sessions().Lock(d.ID, d.row.Epoch); err != nil {
			// fails if another driver has the session: its snapshot is newer
			return err
		}
		return tx.Sessions().PutSnapshot(d.ID, snapshot)
	})
	if err == nil {
		d.snapshotSeq = d.session.Seq
	}
}
