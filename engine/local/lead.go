package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// One worker of a shared store leads at a time: it does all the work that is bound to no other home
// (RC12). The role is recorded in a file that belongs to no session, so that no caller sees it: the
// file contains the id of the worker, and its modification time by the store's clock is when the
// worker last renewed the role.
const (
	leaderRole                      = "leader"
	leaderSession perdure.SessionID = "orphan_scans" // no session has this id
	leaderFile                      = "/last"
)

// newWork is the type of the frames by which other workers notify the leader of new work.
const newWork = "work.new"

// leads reports whether this worker does all work that is bound to no other home. A transient
// worker does while none leads.
func (e *Engine) leads() bool {
	return !e.cfg.Workers.Shared || e.outside != nil || e.lease.leads.Load()
}

// elected reports whether this worker leads now, and records it. The last leader keeps the role as
// long as it is alive and renews it in time. Safety does not depend on the election: if two workers
// lead, only one of them acquires what both find (RC14).
//
// A lock decides among workers that want the role at the same time. A worker holds it only for the
// transaction that records the role, so a process that is paused while holding it loses the lock
// together with its transaction.
func (e *Engine) elected(ctx context.Context) (mine bool, err error) {
	var last store.File
	err = e.cfg.Store.View(ctx, func(r store.Reader) error {
		if last, err = lastLeader(r); err == nil {
			mine, err = e.mayLead(r, last)
		}
		return err
	})
	if err == nil && mine && !e.cfg.Workers.Transient {
		err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error {
			if mine, err = tx.Workers().Elect(leaderRole); err != nil || !mine {
				return err
			}
			now, err := lastLeader(tx.Reader())
			if mine = string(now.Content) == string(last.Content) &&
				now.UpdatedAt.Equal(last.UpdatedAt); err != nil || !mine {
				return err
			}
			if err := e.host.Fence(tx.Reader()); err != nil {
				return err
			}
			_, err = tx.Files().Put(leaderSession, store.File{
				Path: leaderFile, Content: []byte(e.worker.ID), Encoding: store.EncodingText,
			})
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("elect the leader: %w", err)
	}
	if was := e.lease.leads.Swap(mine); mine && !was {
		e.cfg.Log.Info("this worker leads", "worker", e.worker.ID)
		scheduler{e}.StartQueued()
		scheduler{e}.Replan()
	}
	return mine, nil
}

// lastLeader returns the record of the last leader, or the zero value if there is none.
func lastLeader(r store.Reader) (store.File, error) {
	last, err := r.Files().Get(leaderSession, leaderFile)
	if errors.Is(err, perdure.NotFound) {
		return store.File{}, nil
	}
	return last, err
}

// mayLead reports whether this worker may become or stay the leader: it was the last one, the last
// one is dead, or it is late by half an interval. A record in the future means that the clock was
// set back, and says nothing about its worker.
func (e *Engine) mayLead(r store.Reader, last store.File) (bool, error) {
	id, since := perdure.WorkerID(last.Content), r.Now().Sub(last.UpdatedAt)
	if id == e.worker.ID || since < 0 || since >= e.cfg.Workers.OrphanScan*3/2 {
		return true, nil
	}
	w, err := r.Workers().Get(id)
	if errors.Is(err, perdure.NotFound) {
		return true, nil
	}
	return err == nil && !w.LeaseUntil.After(r.Now()), err
}

// work is new work of which the leader is notified.
type work struct {
	Session  perdure.SessionID `json:"session,omitempty"`  // it has events that its driver may not have read
	Queued   bool              `json:"queued,omitempty"`   // a run was queued
	Schedule bool              `json:"schedule,omitempty"` // a schedule may be due at another time
}

// notify notifies the leader of new work. The notification may be lost: the leader also looks at
// every heartbeat.
func (e *Engine) notify(w work) {
	if e.leads() {
		return
	}
	data, err := json.Marshal(w)
	if err == nil {
		e.cfg.Store.Publish(store.Frame{Session: leaderSession, Type: newWork, Data: json.RawMessage(data)})
	}
}

// hearOthers wakes the work of which other workers notify this one while it leads, until ctx ends.
func (e *Engine) hearOthers(ctx context.Context) error {
	err := e.cfg.Store.Watch(ctx, leaderSession, 0, func(f store.Frame) error {
		var w work
		data, is := f.Data.(json.RawMessage)
		if f.Type != newWork || !is || perdure.DecodeKnownJSON(data, &w) != nil || !e.leads() {
			return nil
		}
		if w.Session != "" {
			scheduler{e}.Wake(w.Session)
			if err := e.host.Grants().ForwardCancels(ctx, w.Session); err != nil && ctx.Err() == nil {
				e.cfg.Log.Warn("cancels of a session not forwarded; the next heartbeat does it", "session", w.Session, "error", err)
			}
		}
		if w.Queued {
			scheduler{e}.StartQueued()
		}
		if w.Schedule {
			scheduler{e}.Replan()
		}
		return nil
	})
	if err != nil && ctx.Err() == nil && !store.Broken(err) {
		e.cfg.Log.Warn("this worker finds the new work of others at its heartbeats only", "worker", e.worker.ID, "error", err)
		return nil
	}
	return err
}
