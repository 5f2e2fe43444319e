package storetest

import (
	"database/sql"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func removeLaws() []law {
	return []law{
		{"takes_everything_with_it", removeAll},
		{"leaves_no_trace", removeTraces},
		{"leaves_others", removeLeavesOthers},
		{"lets_the_same_session_come_again", removeAndRestore},
		{"is_unknown_without_a_session", removeUnknown},
		{"refuses_a_session_that_is_driven", removeDriven},
		{"refuses_a_call_that_runs", removeRunningCall},
		{"refuses_a_task_that_lives", removeLiveTask},
		{"refuses_a_session_with_subagents", removeParent},
		{"takes_a_tree_from_its_leaves", removeTree},
		{"goes_with_its_transaction", removeAndFail},
		{"survives_reopening", removeSurvives},
	}
}

// remove removes a session.
func (s *subject) remove(id perdure.SessionID) {
	s.Helper()
	s.write(func(tx store.Tx) error { return tx.Sessions().Remove(id) })
}

// endWork ends all work of a session, so that it can be removed.
func (s *subject) endWork(id perdure.SessionID) {
	s.Helper()
	s.write(func(tx store.Tx) error {
		row, err := tx.Sessions().Get(id)
		if err == nil && row.Worker != "" {
			err = tx.Sessions().Release(id, row.Epoch)
		}
		calls, callErr := tx.Calls().List(store.CallFilter{Session: id, State: perdure.CallRunning})
		for _, c := range calls {
			callErr = errors.Join(callErr, tx.Calls().Settle(c.Key, c.Token, perdure.CallUnknown, text("nobody knows")))
		}
		tasks, taskErr := tx.Tasks().List(store.TaskFilter{Session: id})
		for _, t := range tasks {
			if t.State.Live() {
				_, err := tx.Tasks().Update(id, t.ID, perdure.TaskUpdate{Attempt: t.Attempt, State: perdure.TaskUnknown})
				taskErr = errors.Join(taskErr, err)
			}
		}
		return errors.Join(err, callErr, taskErr)
	})
}

// idleSession returns a session with something of every kind, and no running work.
func (s *subject) idleSession() (things, perdure.SessionID) {
	s.Helper()
	w, id := s.busy()
	s.endWork(id)
	return w, id
}

func removeAll(s *subject) {
	w, id := s.idleSession()

	s.remove(id)

	s.unknown(func(r store.Reader) error { _, err := r.Sessions().Get(id); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Sessions().Dump(id); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Sessions().Snapshot(id); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Tasks().Get(id, w.task.ID); return err })
	s.unknown(func(r store.Reader) error { _, _, err := r.Tasks().ReadLog(w.task.ID, 0, 100); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Calls().Get(w.claimed.Key); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Approvals().Get(w.open.ID); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Spawns().Get(w.running.Key); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Journal().Partial(id, w.fresher); return err })
	s.unknown(func(r store.Reader) error { _, err := r.Files().Get(id, "/old/file"); return err })
	s.read(func(r store.Reader) error {
		events, eventErr := r.Journal().Events(id, 0, 0)
		messages, messageErr := r.Tasks().Messages(w.task.ID, "", 0)
		deliveries, deliveryErr := r.Tasks().Deliveries(id)
		if len(events)+len(messages)+len(deliveries) > 0 {
			s.Errorf("got events %v, messages %v and deliveries %v, want none", events, messages, deliveries)
		}
		return errors.Join(eventErr, messageErr, deliveryErr)
	})
}

// removeTraces searches everywhere with the help of the adapter. It therefore also covers nouns
// that are added later.
func removeTraces(s *subject) {
	if s.harness.Traces == nil {
		s.Fatal("the adapter has no Traces: what a removed session leaves cannot be found")
	}
	_, id := s.idleSession()
	if len(s.harness.Traces(s.T, s.Store, id)) == 0 {
		s.Fatal("no trace of an existing session: the adapter does not search")
	}

	s.remove(id)

	s.same("traces", s.harness.Traces(s.T, s.Store, id), []string(nil))
}

func removeLeavesOthers(s *subject) {
	w, other := s.prepare(), s.prepare()
	s.endWork(w.session)
	before := s.dump(other.session)
	snapshot := func() (found store.Snapshot) {
		s.read(func(r store.Reader) (err error) {
			found, err = r.Sessions().Snapshot(other.session)
			return err
		})
		return found
	}
	kept := snapshot()

	s.remove(w.session)

	s.same("the other session", s.dump(other.session), before)
	s.same("its snapshot", snapshot(), kept)
	s.read(func(r store.Reader) error {
		_, workerErr := r.Workers().Get(w.worker)
		_, requestErr := r.Requests().Get(w.request.Scope, w.request.Key)
		return errors.Join(workerErr, requestErr)
	})
}

func removeAndRestore(s *subject) {
	_, id := s.idleSession()
	before := s.dump(id)

	s.remove(id)
	s.restore(before)

	s.same("the session", s.dump(id), before)
}

func removeUnknown(s *subject) {
	_, id := s.idleSession()
	s.remove(id)

	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Sessions().Remove(id) })
	s.refused(perdure.NotFound, func(tx store.Tx) error { return tx.Sessions().Remove(mint[perdure.SessionID](s)) })
}

// removeRefused requires that a removal is refused and changes nothing.
func (s *subject) removeRefused(id perdure.SessionID) {
	s.Helper()
	before := s.dump(id)
	s.write(func(tx store.Tx) error { // whose other writes are committed
		if err := tx.Sessions().Remove(id); !errors.Is(err, perdure.Conflict) {
			s.Errorf("got error %v, want %v", err, perdure.Conflict)
		}
		return nil
	})
	s.same("the session", s.dump(id), before)
}

func removeDriven(s *subject) {
	_, id := s.idleSession()
	row := s.take(id, s.newStoredWorker().ID)

	s.removeRefused(id)

	s.write(func(tx store.Tx) error { return tx.Sessions().Release(id, row.Epoch) })
	s.remove(id)
}

func removeRunningCall(s *subject) {
	_, id := s.idleSession()
	call := s.claimed(id)

	s.removeRefused(id)

	s.settle(call, perdure.CallSettled, text("done"))
	s.remove(id)
}

func removeLiveTask(s *subject) {
	for _, state := range []perdure.TaskState{perdure.TaskQueued, perdure.TaskRunning, perdure.TaskAwaitingInput} {
		id := s.session()
		task := s.newTask(id)
		task.State = state
		s.create(task)

		s.removeRefused(id)

		s.endWork(id)
		s.remove(id)
	}
}

func removeParent(s *subject) {
	_, id := s.idleSession()
	child := s.newSession()
	child.Parent, child.Root = id, id
	s.write(func(tx store.Tx) error { return tx.Sessions().Create(child) })

	s.removeRefused(id)

	s.remove(child.ID)
	s.remove(id)
}

func removeTree(s *subject) {
	_, id := s.idleSession()
	child, grandchild := s.newSession(), s.newSession()
	child.Parent, child.Root = id, id
	grandchild.Parent, grandchild.Root = child.ID, id
	handle := s.newSpawn(id)
	s.write(func(tx store.Tx) error {
		if err := errors.Join(tx.Sessions().Create(child), tx.Sessions().Create(grandchild)); err != nil {
			return err
		}
		if _, _, err := tx.Spawns().Claim(handle); err != nil {
			return err
		}
		return tx.Spawns().RegisterChild(handle.Key, handle.Token, child.ID)
	})

	s.write(func(tx store.Tx) error {
		return errors.Join(tx.Sessions().Remove(grandchild.ID), tx.Sessions().Remove(child.ID), tx.Sessions().Remove(id))
	})

	for _, id := range []perdure.SessionID{id, child.ID, grandchild.ID} {
		s.unknown(func(r store.Reader) error { _, err := r.Sessions().Get(id); return err })
		s.same("traces", s.harness.Traces(s.T, s.Store, id), []string(nil))
	}
}

func removeAndFail(s *subject) {
	_, id := s.idleSession()
	before := s.dump(id)

	s.refused(errOnPurpose, func(tx store.Tx) error {
		if err := tx.Sessions().Remove(id); err != nil {
			return err
		}
		if _, err := tx.Sessions().Get(id); !errors.Is(err, perdure.NotFound) {
			s.Errorf("in its transaction: got %v, want %v", err, perdure.NotFound)
		}
		return errOnPurpose
	})

	s.same("the session", s.dump(id), before)
}

func removeSurvives(s *subject) {
	_, id := s.idleSession()
	s.remove(id)

	s.reopen()

	s.unknown(func(r store.Reader) error { _, err := r.Sessions().Get(id); return err })
	s.same("traces", s.harness.Traces(s.T, s.Store, id), []string(nil))
}

// TracesIn returns the columns of tables, as TABLE.COLUMN, with a value that contains a session's
// id.
func TracesIn(t *testing.T, db *sql.DB, tables []string, id perdure.SessionID) (found []string) {
	t.Helper()
	for _, table := range tables {
		rows, err := db.Query(`SELECT * FROM ` + table)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		values, into := make([]any, len(columns)), make([]any, len(columns))
		for i := range values {
			into[i] = &values[i]
		}
		for rows.Next() {
			if err := rows.Scan(into...); err != nil {
				t.Fatal(err)
			}
			for i, v := range values {
				text, _ := v.(string)
				body, _ := v.([]byte)
				if name := table + "." + columns[i]; strings.Contains(text+string(body), string(id)) &&
					!slices.Contains(found, name) {
					found = append(found, name)
				}
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			t.Fatal(err)
		}
	}
	return found
}
