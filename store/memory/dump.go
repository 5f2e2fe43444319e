package memory

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// Dump returns everything that belongs to a session.
func (v sessionStore) Dump(id perdure.SessionID) (store.SessionDump, error) {
	s, ok := v.sessions.get(string(id))
	if !ok {
		return store.SessionDump{}, fmt.Errorf("dump session %s: %w", id, perdure.NotFound)
	}
	d := store.SessionDump{Session: s.Session}
	for _, body := range s.journal {
		d.Events = append(d.Events, json.RawMessage(bytes.Clone(body)))
	}
	var errs [4]error
	d.Calls, errs[0] = v.Calls().List(store.CallFilter{Session: id})
	d.Tasks, errs[1] = v.Tasks().List(store.TaskFilter{Session: id})
	d.Approvals, errs[2] = v.Approvals().List(store.ApprovalFilter{Session: id})
	for _, task := range d.Tasks {
		messages, err := v.Tasks().Messages(task.ID, "", 0)
		errs[3] = errors.Join(errs[3], err)
		d.Messages = append(d.Messages, messages...)
		log, _ := v.logs.get(string(task.ID))
		for _, c := range log {
			c.Bytes = bytes.Clone(c.Bytes)
			d.Logs = append(d.Logs, store.TaskChunk{Task: task.ID, LogChunk: c})
		}
	}
	var deliveries []row[store.Delivery]
	for _, r := range v.deliveries.from("") {
		if r.value.Session == id {
			deliveries = append(deliveries, r)
		}
	}
	d.Deliveries = inOrder(deliveries)
	d.Spawns, d.Partials = v.dumpStreams(id)
	for _, f := range v.filesBelow(id, rootDir) {
		f.Content = bytes.Clone(f.Content)
		d.Files = append(d.Files, f)
	}
	d.Values = below(v.values, id)
	d.Images = v.fullImages(id)
	if err := errors.Join(errors.Join(errs[:]...), v.dumpSchedules(&d)); err != nil {
		return store.SessionDump{}, fmt.Errorf("dump session %s: %w", id, err)
	}
	return d, nil
}

// dumpStreams returns the handles of a session's subagents, and the checkpoints of its streaming
// messages.
func (v *tx) dumpStreams(id perdure.SessionID) (spawns []store.Spawn, partials []store.Partial) {
	var handles []row[store.Spawn]
	prefix := sessionPrefix(id)
	for key, r := range v.spawns.from(prefix) {
		if !strings.HasPrefix(key, prefix) {
			break
		}
		r.value = cloneSpawn(r.value)
		handles = append(handles, r)
	}
	for _, p := range v.partials.from("") {
		if p.Session == id {
			partials = append(partials, p)
		}
	}
	slices.SortFunc(partials, func(a, b store.Partial) int { return cmp.Compare(a.Message, b.Message) })
	return inOrder(handles), partials
}

// Restore writes a session as it was dumped.
func (t sessionStore) Restore(d store.SessionDump) error {
	err := d.Check()
	for _, write := range []func(store.SessionDump) error{t.restoreSession, t.restoreCalls, t.restoreTasks,
		t.restoreRest} {
		if err == nil {
			err = write(d)
		}
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	t.appended = append(t.appended, d.Session.ID)
	return nil
}

func (t *tx) restoreSession(d store.SessionDump) error {
	if err := t.Sessions().Create(d.Session); err != nil {
		return err
	}
	s, _ := t.sessions.get(string(d.Session.ID))
	s.LastSeq, s.Epoch, s.Worker = d.Session.LastSeq, d.Session.Epoch, d.Session.Worker
	s.Resumes, s.SeenSeq, s.WaitsSince = d.Session.Resumes, d.Session.SeenSeq, micro(d.Session.WaitsSince)
	for _, body := range d.Events {
		e, err := perdure.DecodeEvent(body)
		switch {
		case err != nil:
			return err
		case t.events.has(string(e.ID)):
			return fmt.Errorf("%w: event %s exists", perdure.Conflict, e.ID)
		}
		t.events = t.events.put(string(e.ID), struct{}{})
		s.journal = append(s.journal, bytes.Clone(body))
	}
	t.sessions = t.sessions.put(string(d.Session.ID), s)
	if s.LastSeq > 0 {
		t.hookCursors = t.hookCursors.put(string(d.Session.ID), s.LastSeq)
	}
	return nil
}

func (t *tx) restoreCalls(d store.SessionDump) error {
	for _, c := range d.Calls {
		if t.calls.has(callKey(c.Key)) {
			return fmt.Errorf("%w: call %s exists", perdure.Conflict, c.Key)
		}
		c = cloneCall(c)
		if c.Result != nil {
			result, err := stored(*c.Result)
			if err != nil {
				return fmt.Errorf("call %s: %w", c.Key, err)
			}
			c.Result = &result
		}
		c.ClaimedAt, c.SettledAt = micro(c.ClaimedAt), micro(c.SettledAt)
		t.calls = t.calls.put(callKey(c.Key), row[perdure.Call]{t.nextPosition(), c})
	}
	for _, a := range d.Approvals {
		if t.approvals.has(string(a.ID)) {
			return fmt.Errorf("%w: approval %s exists", perdure.Conflict, a.ID)
		}
		if err := t.Approvals().Put(a); err != nil {
			return err
		}
	}
	return nil
}

func (t *tx) restoreTasks(d store.SessionDump) error {
	for _, task := range d.Tasks {
		_, created, err := t.Tasks().Create(task)
		if err == nil && !created {
			err = fmt.Errorf("%w: task %s exists", perdure.Conflict, task.ID)
		}
		if err != nil {
			return err
		}
	}
	for _, m := range d.Messages {
		if err := t.Tasks().AddMessage(m); err != nil {
			return err
		}
	}
	for _, c := range d.Logs {
		chunk := c.LogChunk
		chunk.At, chunk.Bytes = micro(chunk.At), bytes.Clone(chunk.Bytes)
		log, _ := t.logs.get(string(c.Task))
		t.logs = t.logs.put(string(c.Task), append(log, chunk)) // outside of what a snapshot sees of the same array
	}
	return nil
}

func (t *tx) restoreRest(d store.SessionDump) error {
	for _, v := range d.Deliveries {
		key := fmt.Sprintf("%s %d %s", v.Task, v.Attempt, v.State)
		if t.deliveries.has(key) {
			return fmt.Errorf("%w: the delivery of task %s exists", perdure.Conflict, v.Task)
		}
		v.Settled = micro(v.Settled)
		t.deliveries = t.deliveries.put(key, row[store.Delivery]{t.nextPosition(), v})
	}
	for _, s := range d.Spawns {
		_, taken := t.Spawns().OfChild(s.Child)
		if t.spawns.has(callKey(s.Key)) || taken == nil {
			return fmt.Errorf("%w: the spawn handle %s exists, or its child has one", perdure.Conflict, s.Key)
		}
		s = cloneSpawn(s)
		s.CreatedAt, s.SettledAt = micro(s.CreatedAt), micro(s.SettledAt)
		t.spawns = t.spawns.put(callKey(s.Key), row[store.Spawn]{t.nextPosition(), s})
	}
	for _, p := range d.Partials {
		p.At = micro(p.At)
		t.partials = t.partials.put(partialKey(p.Session, p.Message), p)
	}
	for _, v := range d.Values {
		v.CreatedAt, v.UpdatedAt = micro(v.CreatedAt), micro(v.UpdatedAt)
		t.values = t.values.put(nameKey(v.Session, v.Key), v)
	}
	for _, i := range d.Images {
		if t.images.has(string(i.ID)) {
			return fmt.Errorf("%w: image %s exists", perdure.Conflict, i.ID)
		}
		i.Data, i.Metadata, i.CreatedAt = clone(i.Data), bytes.Clone(i.Metadata), micro(i.CreatedAt)
		t.images = t.images.put(string(i.ID), i)
	}
	for _, f := range d.Files {
		f.CreatedAt, f.UpdatedAt = micro(f.CreatedAt), micro(f.UpdatedAt)
		if !f.Directory {
			f.Content = append([]byte{}, f.Content...) // an empty file has content
		}
		t.files = t.files.put(fileKey(d.Session.ID, f.Path), f)
	}
	return t.restoreSchedules(d)
}
