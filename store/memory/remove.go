package memory

import (
	"fmt"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Remove removes a session with everything that belongs to it.
func (t sessionStore) Remove(id perdure.SessionID) error {
	s, ok := t.sessions.get(string(id))
	if !ok {
		return fmt.Errorf("remove session %s: %w", id, perdure.NotFound)
	}
	if err := store.Removable(s.Session, t.ties(id)); err != nil {
		return fmt.Errorf("remove session %s: %w", id, err)
	}
	for _, body := range s.journal {
		e, err := perdure.DecodeEvent(body)
		if err != nil {
			return fmt.Errorf("remove session %s: %w", id, err)
		}
		t.events = t.events.remove(string(e.ID))
	}
	t.removeTasks(id)
	t.deliveries = without(t.deliveries, func(r row[store.Delivery]) bool { return r.value.Session == id })
	t.approvals = without(t.approvals, func(r row[perdure.Approval]) bool { return r.value.Session == id })
	t.calls = without(t.calls, func(r row[perdure.Call]) bool { return r.value.Key.Session == id })
	t.spawns = without(t.spawns, func(r row[store.Spawn]) bool { return r.value.Key.Session == id })
	t.partials = without(t.partials, func(p store.Partial) bool { return p.Session == id })
	for _, f := range t.filesBelow(id, rootDir) {
		t.files = t.files.remove(fileKey(id, f.Path))
	}
	t.resources = without(t.resources, func(r row[store.Resource]) bool { return r.value.Session == id })
	for key, r := range t.leases.from("") { // they may outlive it (RS2)
		if r.value.Session == id {
			r.value.Session = ""
			t.leases = t.leases.put(key, r)
		}
	}
	for key, r := range t.payments.from("") { // payments stay on record (PA2)
		if r.value.Session == id {
			r.value.Session = ""
			t.payments = t.payments.put(key, r)
		}
	}
	t.removeSchedules(id)
	t.images = without(t.images, func(i store.Image) bool { return i.Session == id })
	t.values = without(t.values, func(v store.Value) bool { return v.Session == id })
	t.secrets = without(t.secrets, func(s store.Secret) bool { return s.Session == id })
	t.removeBudgets(id)
	t.removeHooks(id)
	t.grants = without(t.grants, func(g grant) bool { return g.work.Session == id })
	t.snapshots = t.snapshots.remove(string(id))
	t.sessions = t.sessions.remove(string(id))
	t.appended = append(t.appended, id) // watchers of the session are notified
	return nil
}

// removeTasks removes the tasks of a session with their messages and their output.
func (t *tx) removeTasks(id perdure.SessionID) {
	for key, r := range t.tasks.from("") { // iterates over the tree as it was before
		if r.value.Session != id {
			continue
		}
		inbox, _ := t.inboxes.get(key)
		for _, m := range inbox {
			t.messages = t.messages.remove(string(m.ID))
		}
		t.inboxes, t.logs, t.tasks = t.inboxes.remove(key), t.logs.remove(key), t.tasks.remove(key)
	}
}

// ties counts what may prevent the removal of a session.
func (v *tx) ties(id perdure.SessionID) (ties store.Ties) {
	for _, r := range v.calls.from("") {
		if r.value.Key.Session == id && r.value.State == perdure.CallRunning {
			ties.Calls++
		}
	}
	for _, r := range v.tasks.from("") {
		if r.value.Session == id && r.value.State.Live() && r.value.Kind != perdure.KindMonitor {
			ties.Tasks++
		}
	}
	for _, s := range v.sessions.from("") {
		if s.Parent == id {
			ties.Children++
		}
	}
	return ties
}

// without returns a tree without the values for which goes is true.
func without[V any](all tree[V], goes func(V) bool) tree[V] {
	left := all
	for key, value := range all.from("") {
		if goes(value) {
			left = left.remove(key)
		}
	}
	return left
}
