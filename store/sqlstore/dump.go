package sqlstore

import (
	"cmp"
	"encoding/json"
	"fmt"
	"path"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

// The statements that dump and restore sessions.
const (
	listBodies  = `SELECT body FROM event WHERE session_id = $1 ORDER BY seq`
	listAllLog  = `SELECT byte_offset, stream, attempt, at_us, body FROM task_log WHERE task_id = $1 ORDER BY byte_offset`
	listOutbox  = `SELECT ` + deliveryColumns + ` FROM delivery WHERE session_id = $1 ORDER BY position`
	listHandles = `SELECT ` + spawnColumns + ` FROM spawn WHERE session_id = $1 ORDER BY position`
	listPartial = `SELECT session_id, message_id, body, at_us FROM partial WHERE session_id = $1`
	listContent = `SELECT ` + fileColumns + `, content FROM file WHERE session_id = $1 ORDER BY path`

	restoreRow = `UPDATE session SET last_seq = $2, epoch = $3, worker_id = $4, take_ups = $5, taken_seq = $6, waits_us = $7 WHERE id = $1`
	// fullCall sets every column, unlike the statement of a claim.
	fullCall = `INSERT INTO call (` + callColumns + `, position)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, `
	restoreCall     = fullCall + callPosition + callOnce
	restoreCallNext = fullCall + positionNext + callOnce

	fullDelivery        = deliveryInto + `VALUES ($1, $2, $3, $4, $5, $6, `
	restoreDelivery     = fullDelivery + deliveryPosition + deliveryOnce
	restoreDeliveryNext = fullDelivery + positionNext + deliveryOnce

	fullSpawn        = spawnInto + `VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, `
	restoreSpawn     = fullSpawn + spawnPosition + spawnOnce
	restoreSpawnNext = fullSpawn + positionNext + spawnOnce
)

// Dump returns everything that belongs to a session.
func (tx sessionStore) Dump(id perdure.SessionID) (d store.SessionDump, err error) {
	steps := []func() error{
		func() error { d.Session, err = tx.Sessions().Get(id); return err },
		func() error { d.Events, err = list(tx.Tx, body, listBodies, id); return err },
		func() error { d.Calls, err = tx.Calls().List(store.CallFilter{Session: id}); return err },
		func() error { d.Tasks, err = tx.Tasks().List(store.TaskFilter{Session: id}); return err },
		func() error { return tx.dumpTasks(&d) },
		func() error { d.Deliveries, err = list(tx.Tx, scanDelivery, listOutbox, id); return err },
		func() error { d.Approvals, err = tx.Approvals().List(store.ApprovalFilter{Session: id}); return err },
		func() error { d.Spawns, err = list(tx.Tx, scanSpawn, listHandles, id); return err },
		func() error { d.Partials, err = list(tx.Tx, scanPartial, listPartial, id); return err },
		func() error { d.Files, err = list(tx.Tx, scanFullFile, listContent, id); return err },
		func() error { d.Values, err = tx.dumpValues(id); return err },
		func() error { d.Images, err = tx.wholeImages(id); return err },
		func() error { return tx.dumpSchedules(&d) },
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return store.SessionDump{}, fmt.Errorf("dump session %s: %w", id, err)
		}
	}
	// not by a collation of the database
	slices.SortFunc(d.Partials, func(a, b store.Partial) int { return cmp.Compare(a.Message, b.Message) })
	return d, nil
}

// dumpTasks adds the messages and logs of the tasks.
func (tx *Tx) dumpTasks(d *store.SessionDump) error {
	for _, task := range d.Tasks {
		messages, err := tx.Tasks().Messages(task.ID, "", 0)
		if err != nil {
			return err
		}
		d.Messages = append(d.Messages, messages...)
		chunks, err := list(tx, scanChunk, listAllLog, task.ID)
		if err != nil {
			return fmt.Errorf("log of task %s: %w", task.ID, err)
		}
		for _, c := range chunks {
			d.Logs = append(d.Logs, store.TaskChunk{Task: task.ID, LogChunk: c})
		}
	}
	return nil
}

// body scans an event as stored.
func body(r row) (json.RawMessage, error) { return content(r) }

// Restore writes a session as it was dumped.
func (tx sessionStore) Restore(d store.SessionDump) error {
	err := d.Check()
	for _, write := range []func(store.SessionDump) error{tx.restoreSession, tx.restoreCalls, tx.restoreTasks,
		tx.restoreRest} {
		if err == nil {
			err = write(d)
		}
	}
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	tx.noteAppended(d.Session.ID)
	return nil
}

func (tx *Tx) restoreSession(d store.SessionDump) error {
	s := d.Session
	if err := tx.Sessions().Create(s); err != nil {
		return err
	}
	if _, err := tx.exec(restoreRow, s.ID, s.LastSeq, s.Epoch, s.Worker, s.Resumes, s.SeenSeq, micros(s.WaitsSince)); err != nil {
		return err
	}
	for some := range slices.Chunk(d.Events, maxEventRows) {
		if err := tx.restoreEvents(s.ID, some); err != nil {
			return err
		}
	}
	return tx.skipHooks(s.ID, s.LastSeq)
}

// restoreEvents adds up to maxEventRows events of one session, as dumped.
func (tx *Tx) restoreEvents(session perdure.SessionID, bodies []json.RawMessage) error {
	args := []any{session}
	for _, text := range bodies {
		e, err := perdure.DecodeEvent(text)
		if err != nil {
			return err
		}
		args = append(args, e.Seq, e.ID, e.Type(), micros(e.At), []byte(text))
	}
	n, err := tx.exec(insertEvents(len(bodies)), args...)
	if err == nil && n < int64(len(bodies)) {
		err = fmt.Errorf("%w: an event of session %s exists", perdure.Conflict, session)
	}
	return err
}

func (tx *Tx) restoreCalls(d store.SessionDump) error {
	for _, c := range d.Calls {
		var result []byte // NULL if there is none
		if c.Result != nil {
			text, err := encode(*c.Result)
			if err != nil {
				return fmt.Errorf("call %s: %w result: %w", c.Key, perdure.Invalid, err)
			}
			result = text
		}
		n, err := tx.exec(tx.withPosition(restoreCall, restoreCallNext), c.Key.Session, bytesOf(c.Key.Call), c.Turn, c.Task,
			c.Attempt, bytesOf(c.Tool), bytesOf(c.Args),
			c.Fingerprint, c.Class, c.State, c.Token, c.Worker, c.Home, c.Epoch, c.Executions, result, bytesOf(c.ResolvedBy),
			micros(c.ClaimedAt), micros(c.SettledAt))
		if err := restored(n, err, "call "+c.Key.String()); err != nil {
			return err
		}
	}
	for _, a := range d.Approvals {
		_, err := tx.Approvals().Get(a.ID)
		if err == nil {
			err = restored(0, nil, "approval "+string(a.ID))
		}
		if missing(err) {
			err = tx.Approvals().Put(a)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (tx *Tx) restoreTasks(d store.SessionDump) error {
	for _, t := range d.Tasks {
		_, created, err := tx.Tasks().Create(t)
		if err == nil && !created {
			err = restored(0, nil, "task "+string(t.ID))
		}
		if err != nil {
			return err
		}
	}
	for _, m := range d.Messages {
		if err := tx.Tasks().AddMessage(m); err != nil {
			return err
		}
	}
	for _, c := range d.Logs {
		_, err := tx.exec(insertChunk, c.Task, c.Offset, len(c.Bytes), bytesOf(c.Stream), c.Attempt, micros(c.At),
			c.Bytes)
		if err != nil {
			return fmt.Errorf("log of task %s: %w", c.Task, err)
		}
	}
	return nil
}

func (tx *Tx) restoreRest(d store.SessionDump) error {
	if err := tx.restoreStreams(d); err != nil {
		return err
	}
	for _, v := range d.Deliveries {
		n, err := tx.exec(tx.withPosition(restoreDelivery, restoreDeliveryNext), v.Session, v.Task, v.Attempt, v.State,
			micros(v.Settled), v.Claimed)
		if err := restored(n, err, "the delivery of task "+string(v.Task)); err != nil {
			return err
		}
	}
	for _, f := range d.Files {
		_, err := tx.exec(putFile, d.Session.ID, bytesOf(f.Path), f.Directory, f.ReadOnly, f.Encoding, len(f.Content),
			micros(f.CreatedAt), micros(f.UpdatedAt), bytesOf(f.Content), bytesOf(path.Dir(f.Path)))
		if err != nil {
			return fmt.Errorf("file %s: %w", f.Path, err)
		}
	}
	if err := tx.restoreSchedules(d); err != nil {
		return err
	}
	for _, i := range d.Images {
		n, err := tx.insertImage(i)
		if err := restored(n, err, "image "+string(i.ID)); err != nil {
			return err
		}
	}
	return tx.restoreValues(d)
}

// restoreStreams adds spawn handles and checkpoints.
func (tx *Tx) restoreStreams(d store.SessionDump) error {
	for _, s := range d.Spawns {
		if _, err := tx.Spawns().OfChild(s.Child); !missing(err) {
			return restored(0, err, "a spawn handle of the child of "+s.Key.String())
		}
		n, err := tx.exec(tx.withPosition(restoreSpawn, restoreSpawnNext), s.Key.Session, bytesOf(s.Key.Call), s.Root,
			s.Depth, s.Task, s.Child, bytesOf(s.Name),
			bytesOf(s.Prompt), bytesOf(s.Schema), s.Token, s.State, s.Repairs, s.Status, bytesOf(s.Result), micros(s.CreatedAt), micros(s.SettledAt))
		if err := restored(n, err, "the spawn handle "+s.Key.String()); err != nil {
			return err
		}
	}
	for _, p := range d.Partials {
		if _, err := tx.exec(putPartial, p.Session, p.Message, bytesOf(p.Text), micros(p.At)); err != nil {
			return fmt.Errorf("checkpoint of message %s: %w", p.Message, err)
		}
	}
	return nil
}

// restored is the error of an INSERT that found its row already there.
func restored(n int64, err error, what string) error {
	if err == nil && n == 0 {
		err = fmt.Errorf("%w: %s exists", perdure.Conflict, what)
	}
	return err
}
