package storetest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/store"
)

func dumpLaws() []law {
	return []law{
		{"has_everything_of_its_session", dumpHasAll},
		{"restores_an_equal_session_into_an_empty_store", restoreElsewhere},
		{"restores_every_field", restoreFields},
		{"restores_behind_what_is_there", restoreBehind},
		{"goes_on_where_the_session_was", restoreGoesOn},
		{"is_unknown_without_a_session", dumpUnknown},
		{"refuses_what_is_there", restoreTwice},
		{"refuses_what_is_not_whole", restoreDamaged},
		{"gives_out_copies", dumpCopies},
	}
}

// dump returns the dump of a session.
func (s *subject) dump(id perdure.SessionID) (d store.SessionDump) {
	s.Helper()
	s.read(func(r store.Reader) (err error) {
		d, err = r.Sessions().Dump(id)
		return err
	})
	return d
}

// restore writes a dump.
func (s *subject) restore(d store.SessionDump) {
	s.Helper()
	s.write(func(tx store.Tx) error { return tx.Sessions().Restore(d) })
}

// beside returns an empty store.
func (s *subject) beside() *subject {
	s.Helper()
	return &subject{T: s.T, Store: s.harness.Open(s.T), harness: s.harness, ctx: s.ctx}
}

// busy returns a session with something of every kind.
func (s *subject) busy() (things, perdure.SessionID) {
	s.Helper()
	w := s.prepare()
	s.write(func(tx store.Tx) error { return w.touch(tx) })
	handle := store.Spawn{
		Key: perdure.CallKey{Session: w.session, Call: "call \xff"}, Root: w.session, Depth: 1, Task: w.task.ID,
		Name: "n", Prompt: "p",
		Schema: []byte(`{}`), Token: "token",
	}
	s.write(func(tx store.Tx) error {
		if _, _, err := tx.Spawns().Claim(handle); err != nil {
			return err
		}
		return tx.Journal().PutPartial(store.Partial{Session: w.session, Message: "message_1", Text: "so far"})
	})
	return w, w.session
}

// filledDump returns a dump with every field set.
func filledDump(s *subject) store.SessionDump {
	s.Helper()
	d := store.SessionDump{Session: filled[store.Session]()}
	id := mint[perdure.SessionID](s)
	d.Session.ID, d.Session.LastSeq, d.Session.SeenSeq = id, 11, 1
	for i := range d.Session.LastSeq {
		e := perdure.Event{
			ID: mint[perdure.EventID](s), Seq: i + 1, At: moment(int(i)), Session: id, Actor: "user",
			Fact: perdure.UnknownFact{Kind: "later", Data: []byte(`{"n":[1.50,"<ü>"]}`)},
		}
		d.Events = append(d.Events, s.encode(e))
	}
	call := filled[perdure.Call]()
	call.Key, call.State, call.Result.RawOutput = perdure.CallKey{Session: id, Call: "call \xff\x00"},
		perdure.CallSettled, nil
	running := perdure.Call{Key: perdure.CallKey{Session: id, Call: "another"}, Tool: "t",
		Args: []byte("{ \"a\" : 1 }"), State: perdure.CallRunning, Token: "t", ClaimedAt: moment(3)}
	d.Calls = []perdure.Call{call, running}
	task := filled[perdure.Task]()
	task.ID, task.Session, task.State = mint[perdure.TaskID](s), id, perdure.TaskUnknown
	d.Tasks = []perdure.Task{task}
	message := filled[perdure.TaskMessage]()
	message.ID, message.Task, message.Text = mint[perdure.TaskMessageID](s), task.ID, "text \xff"
	d.Messages = []perdure.TaskMessage{message}
	for _, words := range []string{"one", "two\xff"} {
		chunk := filled[store.LogChunk]()
		chunk.Offset, chunk.Bytes = int64(3*len(d.Logs)), []byte(words)
		d.Logs = append(d.Logs, store.TaskChunk{Task: task.ID, LogChunk: chunk})
	}
	for i, state := range []perdure.TaskState{perdure.TaskUnknown, perdure.TaskFailed} {
		d.Deliveries = append(d.Deliveries, store.Delivery{Session: id, Task: task.ID, Attempt: 2, State: state,
			Settled: moment(i), Claimed: i == 0})
	}
	question := filled[perdure.Approval]()
	question.ID, question.Session, question.Call, question.State = mint[perdure.ApprovalID](s), id, "call \xfe",
		perdure.ApprovalVoid
	d.Approvals = []perdure.Approval{question}
	handle := filled[store.Spawn]()
	handle.Key, handle.State, handle.Status = perdure.CallKey{Session: id, Call: "call \xff"}, store.SpawnSettled,
		perdure.TaskFailed
	handle.Child = mint[perdure.SessionID](s)
	d.Spawns = []store.Spawn{handle}
	partial := filled[store.Partial]()
	partial.Session = id
	d.Partials = []store.Partial{partial}
	folder, file := filled[store.File](), filled[store.File]()
	folder.Path, folder.Content, folder.SizeBytes = "/dir", nil, 0
	file.Path, file.Directory, file.Content, file.SizeBytes = "/dir/\xff", false, []byte("a\x00\xff"), 3
	d.Files = []store.File{folder, file}
	value := filled[store.Value]()
	value.Session, value.Text = id, "text \x00\xff"
	d.Values = []store.Value{value}
	for i, blob := range []bool{false, true} {
		image := filled[store.Image]()
		image.ID, image.Session, image.ContentType, image.Metadata, image.Blob, image.CreatedAt = mint[perdure.ImageID](s), id, "image/png", []byte(`{}`), blob, moment(i)
		sum := sha256.Sum256([]byte("a\xff"))
		if image.Data, image.SizeBytes, image.SHA256 = []byte("a\xff"), 2, hex.EncodeToString(sum[:]); blob {
			image.Data = nil
		}
		d.Images = append(d.Images, image)
	}
	sched := s.newSchedule(id, moment(7))
	d.Schedules, d.Fires = []perdure.Schedule{sched},
		[]perdure.Fire{newFire(sched, moment(1)), newFire(sched, moment(2))}
	return d
}

func dumpHasAll(s *subject) {
	w, id := s.busy()
	other := s.session()
	s.append(other, 2)
	all := s.all(w)

	d := s.dump(id)

	var events []perdure.Event
	for _, body := range d.Events {
		e, err := perdure.DecodeEvent(body)
		if err != nil {
			s.Fatal(err)
		}
		events = append(events, e)
	}
	var logs []store.LogChunk
	for _, c := range d.Logs {
		logs = append(logs, c.LogChunk)
	}
	pending := slices.DeleteFunc(slices.Clone(d.Deliveries), func(v store.Delivery) bool { return v.Claimed })
	s.same("row", d.Session, s.row(id))
	s.same("events", events, s.journal(id))
	s.same("calls", d.Calls, all.Calls)
	s.same("tasks", d.Tasks, all.Tasks)
	s.same("messages", d.Messages, all.Messages)
	s.same("log", logs, all.Log)
	s.same("deliveries", pending, all.Deliveries)
	s.same("approvals", d.Approvals, all.Approvals)
	s.same("files", d.Files, all.Files)
	for i := range all.Values { // lists contain no texts
		all.Values[i].Text = s.value(id, all.Values[i].Key).Text
	}
	s.same("values", d.Values, all.Values)
	s.same("schedules", d.Schedules, all.Schedules)
	s.same("fires", len(d.Fires), len(all.Fires))
	if len(d.Deliveries) <= len(pending) {
		s.Errorf("got %d deliveries, none of them claimed", len(d.Deliveries))
	}
	if !slices.ContainsFunc(d.Spawns, func(h store.Spawn) bool { return h.Token == "token" }) {
		s.Errorf("got the handles %+v", d.Spawns)
	}
	if !slices.ContainsFunc(d.Partials, func(p store.Partial) bool {
		return p.Message == "message_1" && p.Text == "so far"
	}) {
		s.Errorf("got the checkpoints %+v", d.Partials)
	}
}

func restoreElsewhere(s *subject) {
	_, id := s.busy()
	want := s.dump(id)

	there := s.beside()
	there.restore(want)
	s.same("the dump", there.dump(id), want)
	there.reopen()

	s.same("the dump after reopening", there.dump(id), want)
}

func restoreFields(s *subject) {
	want := filledDump(s)
	s.restore(want)

	s.same("the dump", s.dump(want.Session.ID), want)
}

func restoreBehind(s *subject) {
	before := s.claimed(s.session())
	task := s.create(s.newTask(before.Key.Session))
	d := filledDump(s)
	s.restore(d)
	after := s.claimed(before.Key.Session)

	var calls []perdure.CallKey
	s.read(func(r store.Reader) error {
		found, err := r.Calls().List(store.CallFilter{})
		for _, c := range found {
			calls = append(calls, c.Key)
		}
		return err
	})
	s.same("calls", calls, []perdure.CallKey{before.Key, d.Calls[0].Key, d.Calls[1].Key, after.Key})
	s.same("tasks", s.tasks(store.TaskFilter{}), []perdure.TaskID{task.ID, d.Tasks[0].ID})
}

func restoreGoesOn(s *subject) {
	_, id := s.busy()
	d := s.dump(id)
	there := s.beside()
	there.restore(d)

	for _, side := range []*subject{s, there} {
		next := perdure.Event{ID: "event_next", At: moment(1), Actor: "user",
			Fact: perdure.SessionUpdated{Title: "next"}}
		side.write(func(tx store.Tx) error { return tx.Journal().Append(id, []perdure.Event{next}) })
		taken := side.take(id, "worker_next")
		s.same("seq", taken.LastSeq, d.Session.LastSeq+1)
		s.same("epoch", taken.Epoch, d.Session.Epoch+1)
		for _, c := range d.Calls {
			outcome, row := side.claim(c, alive)
			if outcome == perdure.Claimed && c.State != perdure.CallRunning {
				s.Errorf("call %s was %s, and can be claimed", c.Key, c.State)
			}
			s.same("call", row, c)
		}
	}
}

func dumpUnknown(s *subject) {
	id := mint[perdure.SessionID](s)
	s.unknown(func(r store.Reader) error { _, err := r.Sessions().Dump(id); return err })
}

func restoreTwice(s *subject) {
	there := filledDump(s)
	s.restore(there)
	for what, put := range map[string]func(d *store.SessionDump){
		"session":  func(d *store.SessionDump) { *d = store.SessionDump{Session: store.Session{ID: there.Session.ID}} },
		"task":     func(d *store.SessionDump) { d.Tasks[0].ID, d.Messages, d.Logs = there.Tasks[0].ID, nil, nil },
		"message":  func(d *store.SessionDump) { d.Messages[0].ID = there.Messages[0].ID },
		"approval": func(d *store.SessionDump) { d.Approvals[0].ID = there.Approvals[0].ID },
		"child":    func(d *store.SessionDump) { d.Spawns[0].Child = there.Spawns[0].Child },
		"delivery": func(d *store.SessionDump) { d.Deliveries[0].Task, d.Deliveries[0].Attempt = there.Tasks[0].ID, 2 },
		"event": func(d *store.SessionDump) {
			e, err := perdure.DecodeEvent(there.Events[10])
			if err != nil {
				s.Fatal(err)
			}
			e.Session = d.Session.ID
			d.Events[10] = s.encode(e)
		},
	} {
		d := filledDump(s)
		put(&d)
		s.Logf("the %s exists", what)
		s.refused(perdure.Conflict, func(tx store.Tx) error { return tx.Sessions().Restore(d) })
		if d.Session.ID != there.Session.ID {
			s.unknown(func(r store.Reader) error { _, err := r.Sessions().Dump(d.Session.ID); return err })
		}
	}
	s.same("what was there", s.dump(there.Session.ID), there)
}

func restoreDamaged(s *subject) {
	for what, damage := range map[string]func(d *store.SessionDump){
		"a lost event": func(d *store.SessionDump) { d.Events = d.Events[1:] },
		"a swapped event": func(d *store.SessionDump) {
			d.Events[0], d.Events[1] = d.Events[1], d.Events[0]
		},
		"no event":                     func(d *store.SessionDump) { d.Events[3] = json.RawMessage(`{}`) },
		"no id":                        func(d *store.SessionDump) { d.Session.ID = "" },
		"a seq beyond":                 func(d *store.SessionDump) { d.Session.SeenSeq = 12 },
		"a call of another":            func(d *store.SessionDump) { d.Calls[0].Key.Session = "session_other" },
		"a call without a state":       func(d *store.SessionDump) { d.Calls[0].State = "gone" },
		"a task of another":            func(d *store.SessionDump) { d.Tasks[0].Session = "session_other" },
		"a task without a state":       func(d *store.SessionDump) { d.Tasks[0].State = "gone" },
		"an approval of another":       func(d *store.SessionDump) { d.Approvals[0].Session = "session_other" },
		"a delivery of a live one":     func(d *store.SessionDump) { d.Deliveries[0].State = perdure.TaskRunning },
		"a message to an unknown task": func(d *store.SessionDump) { d.Messages[0].Task = "task_other" },
		"a hole in a log":              func(d *store.SessionDump) { d.Logs[1].Offset++ },
		"a handle of another":          func(d *store.SessionDump) { d.Spawns[0].Key.Session = "session_other" },
		"a checkpoint of another":      func(d *store.SessionDump) { d.Partials[0].Session = "session_other" },
		"a file without a folder":      func(d *store.SessionDump) { d.Files = d.Files[1:] },
		"a file upwards":               func(d *store.SessionDump) { d.Files[1].Path = "/dir/../../x" },
		"a value of another":           func(d *store.SessionDump) { d.Values[0].Session = "session_other" },
		"a value twice":                func(d *store.SessionDump) { d.Values = append(d.Values, d.Values[0]) },
		"a value without a key":        func(d *store.SessionDump) { d.Values[0].Key = "" },
		"an image of another":          func(d *store.SessionDump) { d.Images[0].Session = "session_other" },
		"an image twice":               func(d *store.SessionDump) { d.Images[1] = d.Images[0] },
		"an image of other bytes":      func(d *store.SessionDump) { d.Images[0].Data = []byte("b\xff") },
		"a file of another size":       func(d *store.SessionDump) { d.Files[1].SizeBytes++ },
	} {
		d := filledDump(s)
		id := d.Session.ID
		damage(&d)
		s.Log(what)
		s.refused(perdure.Invalid, func(tx store.Tx) error { return tx.Sessions().Restore(d) })
		s.unknown(func(r store.Reader) error { _, err := r.Sessions().Dump(id); return err })
	}
}

func dumpCopies(s *subject) {
	given := filledDump(s)
	id := given.Session.ID
	s.restore(given)
	want := s.dump(id)

	scribble(&given)
	again := s.dump(id)
	scribble(&again)

	s.same("the dump", s.dump(id), want)
}
