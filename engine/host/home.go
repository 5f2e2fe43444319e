package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect"
	"github.com/perdure/perdure/store"
)

// filesHome is the home of files that this process creates for sessions; empty: they bind a session
// to none (RC25).
func filesHome(cfg Config) perdure.HomeID {
	if !cfg.Workers.Shared || cfg.Storage.Shared {
		return ""
	}
	return cfg.Storage.Home
}

// WaitsElsewhere reports whether a session is known to wait for another home, so that no driver
// here needs to look at it.
func (e *Host) WaitsElsewhere(s store.Session) bool {
	return !s.WaitsSince.IsZero() && e.effects.FilesElsewhere(s)
}

// homeOfFiles is the only home at which a session can be worked on; empty: every process can.
func homeOfFiles(cfg Config, row store.Session) perdure.HomeID {
	if cfg.Storage.Shared {
		return ""
	}
	return row.Home
}

// homeOf describes the home of a session; nil: it has none, or every worker reaches its files. It
// waits only while no worker of its home is alive: a live one acquires it within a heartbeat.
func (e hostSessions) homeOf(r store.Reader, row store.Session) (*engine.SessionHome, error) {
	id := homeOfFiles(e.cfg, row)
	if id == "" {
		return nil, nil
	}
	h, err := r.Workers().Home(id)
	if errors.Is(err, perdure.NotFound) {
		h, err = store.Home{ID: id}, nil
	}
	shown := &engine.SessionHome{ID: id, Host: h.Host, Here: id == e.cfg.Storage.Home}
	if !h.Present {
		shown.WaitsSince = row.WaitsSince
	}
	return shown, err
}

// Homes lists the homes that have used the store.
func (e hostSessions) Homes(ctx context.Context) (list []engine.Home, err error) {
	if !e.cfg.Workers.Shared {
		return nil, nil
	}
	err = e.view(ctx, func(r store.Reader) error {
		homes, err := r.Workers().Homes()
		if err != nil {
			return err
		}
		sessions, err := r.Sessions().List(store.SessionFilter{Waiting: true})
		if err != nil {
			return err
		}
		tasks, err := r.Tasks().List(store.TaskFilter{States: []perdure.TaskState{perdure.TaskRunning, perdure.TaskAwaitingInput}})
		list = make([]engine.Home, len(homes))
		for i, h := range homes {
			list[i] = engine.Home{ID: h.ID, Host: h.Host, SeenAt: h.SeenAt, Present: h.Present, Here: h.ID == e.cfg.Storage.Home}
			for _, s := range sessions {
				if s.Home == h.ID {
					list[i].WaitingSessions++
				}
			}
			for _, t := range tasks {
				if t.WaitsForHome == h.ID {
					list[i].WaitingTasks++
				}
			}
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list homes: %w", err)
	}
	return list, nil
}

// MoveHere binds a session and its subagents to the home of this worker (RC28).
func (e hostSessions) MoveHere(ctx context.Context, id perdure.SessionID) (engine.Session, error) {
	var moved []perdure.SessionID
	err := e.cfg.Store.InTx(ctx, func(tx store.Tx) (err error) {
		moved, err = e.moveTree(ctx, tx, id)
		return err
	})
	if err != nil {
		return engine.Session{}, fmt.Errorf("move %s: %w", id, err)
	}
	for _, id := range moved {
		e.scheduler.Wake(id)
	}
	e.scheduler.StartQueued()
	return e.Sessions().Get(ctx, id)
}

// moveTree moves a root session with those of its subagents that are bound to another home, and
// returns them.
func (e hostSessions) moveTree(ctx context.Context, tx store.Tx, id perdure.SessionID) (moved []perdure.SessionID, err error) {
	root, err := tx.Sessions().Get(id)
	switch {
	case err != nil:
		return nil, err
	case root.Parent != "":
		return nil, fmt.Errorf("%w session: it is a subagent of %s; move its root %s instead", perdure.Invalid, root.Parent, root.Root)
	}
	tree := []store.Session{root}
	for i := 0; i < len(tree); i++ { // tree grows
		children, err := tx.Sessions().List(store.SessionFilter{Parent: tree[i].ID})
		if err != nil {
			return nil, err
		}
		tree = append(tree, children...)
	}
	from := root.Home
	for _, s := range tree {
		if !e.effects.FilesElsewhere(s) {
			continue
		}
		if err := e.checkNobodyWorks(tx.Reader(), s); err != nil {
			return nil, err
		}
		if err := tx.Sessions().SetHome(s.ID, e.cfg.Storage.Home); err != nil {
			return nil, err
		}
		moved, from = append(moved, s.ID), cmp.Or(from, s.Home)
	}
	if len(moved) == 0 {
		return nil, nil
	}
	return moved, tx.Audit().Add(store.AuditEntry{
		Org: root.Org, Actor: store.ActorOf(ctx), Action: "session.moved", Subject: string(id), Session: id,
		Detail: map[string]string{"from": string(from), "to": string(e.cfg.Storage.Home)},
	})
}

// checkNobodyWorks returns Conflict if a live worker drives a session or runs one of its tasks: it
// continues to use the files at its own home.
func (e hostSessions) checkNobodyWorks(r store.Reader, s store.Session) error {
	tasks, err := r.Tasks().List(store.TaskFilter{Session: s.ID, States: []perdure.TaskState{perdure.TaskRunning, perdure.TaskAwaitingInput}})
	if err != nil {
		return err
	}
	works := e.WorkerAlive(r, s.Worker)
	for _, t := range tasks {
		works = works || t.Kind != perdure.KindMonitor && e.WorkerAlive(r, t.Worker)
	}
	if works {
		return fmt.Errorf("%w: a server of %s is running and works on %s; stop that server, or wait until the session is idle",
			perdure.Conflict, effect.HomeName(r, s.Home), s.ID)
	}
	return nil
}

// checkDumpedFiles returns Conflict if the files of a dumped session are at another home.
func (e hostSessions) checkDumpedFiles(r store.Reader, dumps []store.SessionDump) error {
	for _, d := range dumps {
		if err := e.effects.CheckFiles(r, d.Session); err != nil {
			return err
		}
	}
	return nil
}

// homeOfImported is the home of an imported session, whose databases and large images were written
// here.
func (e hostSessions) homeOfImported(p archivedSession) perdure.HomeID {
	files := len(p.databases) > 0
	for _, i := range p.Images {
		files = files || i.Blob
	}
	if files {
		return filesHome(e.cfg)
	}
	first, err := perdure.DecodeEvent(p.Events[0])
	if created, ok := first.Fact.(perdure.SessionCreated); err == nil && ok {
		return e.effects.HomeOfNew(created.Agent)
	}
	return ""
}
