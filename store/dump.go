package store

import (
	"encoding/json"
	"fmt"
	"path"

	"github.com/perdure/perdure"
)

// SessionDump is everything that belongs to one session, as stored: all that another store needs to
// continue the session exactly as this one would. The snapshot is left out, since it is only a
// cache. All of it is in memory at once, including the contents of files and logs. It contains the
// session's secret, from which ids derive, and the tokens of its claims: it is confidential.
type SessionDump struct {
	Session    Session
	Events     []json.RawMessage     // as stored; seq n is at index n-1
	Calls      []perdure.Call        // in the order of their claims
	Tasks      []perdure.Task        // in the order of their creation
	Messages   []perdure.TaskMessage // of the tasks; for each task in the order they were added
	Logs       []TaskChunk           // of the tasks; for each task by offset
	Deliveries []Delivery            // claimed or not, in the order they were added
	Approvals  []perdure.Approval    // in the order of the requests
	Spawns     []Spawn               // handles of its subagents, in the order of their claims
	Partials   []Partial             // by message
	Files      []File                // with their contents, by path
	Schedules  []perdure.Schedule    // by id
	Fires      []perdure.Fire        // of the schedules; for each schedule by nominal time
	Values     []Value               // with their texts, by key; secrets are not dumped
	Images     []Image               // in the order of Images, with their bytes unless they are blobs
}

// TaskChunk is a chunk of the output of a task.
type TaskChunk struct {
	Task perdure.TaskID
	LogChunk
}

// DumpReader dumps sessions.
type DumpReader interface {
	// Dump returns everything that belongs to a session. NotFound: no such session.
	Dump(id perdure.SessionID) (SessionDump, error)
}

// DumpWriter restores sessions.
type DumpWriter interface {
	// Restore writes a session exactly as it was dumped, with the sequence numbers, ids, epoch,
	// tokens and times of d. A later Dump returns an equal value; in any order across sessions,
	// rows of other sessions come before those of d. Invalid: as Check says. Conflict: the session
	// exists, or the id of an event, a task, a task message, an approval or a spawn handle. After
	// an error the transaction must not be committed.
	Restore(d SessionDump) error
}

// Check checks that d is complete and belongs to one session. Invalid: the error says what is
// wrong.
func (d SessionDump) Check() error {
	for _, check := range []func() error{d.checkJournal, d.checkCalls, d.checkTasks, d.checkSpawns, d.checkSchedules,
		d.checkLogs, d.checkFiles, d.checkValues, d.checkImages} {
		if err := check(); err != nil {
			return fmt.Errorf("session %s: %w", d.Session.ID, err)
		}
	}
	return nil
}

func (d SessionDump) checkJournal() error {
	s := d.Session
	if s.ID == "" || s.LastSeq != int64(len(d.Events)) || s.SeenSeq < 0 || s.SeenSeq > s.LastSeq || s.Epoch < 0 ||
		s.Resumes < 0 {
		return fmt.Errorf("%w row: seq %d of %d events, seen up to %d, epoch %d", perdure.Invalid, s.LastSeq,
			len(d.Events), s.SeenSeq, s.Epoch)
	}
	if err := s.Labels.Check(); err != nil {
		return err
	}
	for i, body := range d.Events {
		e, err := perdure.DecodeEvent(body)
		if err != nil {
			return fmt.Errorf("event %d: %w", i+1, err)
		}
		if e.Seq != int64(i+1) || e.Session != s.ID || e.ID == "" {
			return fmt.Errorf("%w event %d: it claims to be %q, %d of %s", perdure.Invalid, i+1, e.ID, e.Seq, e.Session)
		}
	}
	return nil
}

func (d SessionDump) checkCalls() error {
	for _, c := range d.Calls {
		known := c.State == perdure.CallRunning || c.State == perdure.CallSettled || c.State == perdure.CallUnknown
		if c.Key.Session != d.Session.ID || !known {
			return fmt.Errorf("%w call %s in state %q", perdure.Invalid, c.Key, c.State)
		}
	}
	for _, a := range d.Approvals {
		if a.Session != d.Session.ID || a.ID == "" || !a.State.Valid() {
			return fmt.Errorf("%w approval %s of %s in state %q", perdure.Invalid, a.ID, a.Session, a.State)
		}
	}
	return nil
}

func (d SessionDump) checkTasks() error {
	tasks := map[perdure.TaskID]bool{}
	for _, t := range d.Tasks {
		if t.Session != d.Session.ID || t.ID == "" || !t.State.Valid() {
			return fmt.Errorf("%w task %s of %s in state %q", perdure.Invalid, t.ID, t.Session, t.State)
		}
		tasks[t.ID] = true
	}
	for _, m := range d.Messages {
		if !tasks[m.Task] || m.ID == "" {
			return fmt.Errorf("%w message %s: there is no task %s", perdure.Invalid, m.ID, m.Task)
		}
	}
	for _, v := range d.Deliveries {
		if v.Session != d.Session.ID || v.Task == "" || !v.State.Terminal() {
			return fmt.Errorf("%w delivery of task %s of %s in state %q", perdure.Invalid, v.Task, v.Session, v.State)
		}
	}
	return nil
}

func (d SessionDump) checkSpawns() error {
	for _, s := range d.Spawns {
		running := s.State != SpawnRunning || s.Child != ""
		if s.Key.Session != d.Session.ID || !s.State.Valid() || s.Token == "" || !running ||
			(s.State == SpawnSettled) != s.Status.Terminal() {
			return fmt.Errorf("%w spawn handle %s in state %q, status %q", perdure.Invalid, s.Key, s.State, s.Status)
		}
	}
	last := perdure.MessageID("")
	for _, p := range d.Partials {
		if p.Session != d.Session.ID || p.Message <= last {
			return fmt.Errorf("%w checkpoint of message %q of %s", perdure.Invalid, p.Message, p.Session)
		}
		last = p.Message
	}
	return nil
}

func (d SessionDump) checkSchedules() error {
	known := map[perdure.ScheduleID]bool{}
	for _, s := range d.Schedules {
		if err := CheckSchedule(s); err != nil {
			return err
		}
		if s.Session != d.Session.ID || known[s.ID] {
			return fmt.Errorf("%w schedule %s of %s", perdure.Invalid, s.ID, s.Session)
		}
		known[s.ID] = true
	}
	for _, f := range d.Fires {
		if f.Session != d.Session.ID || !known[f.Schedule] || f.Nominal.IsZero() {
			return fmt.Errorf("%w fire of schedule %s of %s at %s", perdure.Invalid, f.Schedule, f.Session, f.Nominal)
		}
	}
	return nil
}

func (d SessionDump) checkLogs() error {
	ends := map[perdure.TaskID]int64{}
	for _, t := range d.Tasks {
		ends[t.ID] = 0
	}
	for _, c := range d.Logs {
		end, known := ends[c.Task]
		if !known || c.Offset != end || len(c.Bytes) == 0 || len(c.Bytes) > MaxLogChunkBytes {
			return fmt.Errorf("%w log of task %s: %d bytes at %d, want more at %d", perdure.Invalid, c.Task,
				len(c.Bytes), c.Offset, end)
		}
		ends[c.Task] = end + int64(len(c.Bytes))
	}
	return nil
}

func (d SessionDump) checkFiles() error {
	folders, last := map[string]bool{"/": true}, "/"
	for _, f := range d.Files {
		switch {
		case !path.IsAbs(f.Path) || path.Clean(f.Path) != f.Path || f.Path <= last:
			return fmt.Errorf("%w file %q: its path is not normalised, or out of order", perdure.Invalid, f.Path)
		case !folders[path.Dir(f.Path)]:
			return fmt.Errorf("%w file %q: its directory is missing", perdure.Invalid, f.Path)
		case f.SizeBytes != int64(len(f.Content)) || f.Directory && f.SizeBytes > 0:
			return fmt.Errorf("%w file %q: it has %d bytes, but its size says %d", perdure.Invalid, f.Path,
				len(f.Content), f.SizeBytes)
		}
		folders[f.Path], last = f.Directory, f.Path
	}
	return nil
}

func (d SessionDump) checkValues() error {
	last := ""
	for _, v := range d.Values {
		if err := v.Check(); err != nil {
			return err
		}
		if v.Session != d.Session.ID || v.Key <= last || v.Version < 1 {
			return fmt.Errorf("%w value %q of %s, version %d, after %q", perdure.Invalid, v.Key, v.Session, v.Version,
				last)
		}
		last = v.Key
	}
	if n := len(d.Values); n > MaxKeys {
		return fmt.Errorf("%w values: there are %d, at most %d are stored", perdure.Invalid, n, MaxKeys)
	}
	return nil
}

func (d SessionDump) checkImages() error {
	known := map[perdure.ImageID]bool{}
	for _, i := range d.Images {
		if err := i.Check(); err != nil {
			return err
		}
		if i.Session != d.Session.ID || known[i.ID] {
			return fmt.Errorf("%w image %s of %s", perdure.Invalid, i.ID, i.Session)
		}
		known[i.ID] = true
	}
	if n := len(d.Images); n > MaxImages {
		return fmt.Errorf("%w: %d images, at most %d are stored", perdure.Limit, n, MaxImages)
	}
	return nil
}
