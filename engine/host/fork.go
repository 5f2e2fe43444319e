package host

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/internal/effect/core"
	"github.com/perdure/perdure/internal/sessionsql"
	"github.com/perdure/perdure/store"
)

// Fork creates a session from another one, which it only reads.
func (e hostSessions) Fork(ctx context.Context, id perdure.SessionID, f engine.Fork) (engine.Session, error) {
	f.ID = cmp.Or(f.ID, core.NewID[perdure.SessionID]())
	f.Effects = cmp.Or(f.Effects, perdure.ForkAsks)
	if _, err := perdure.ParseID[perdure.SessionID](string(f.ID)); err != nil {
		return engine.Session{}, fmt.Errorf("fork %s: %w", id, err)
	}
	if f.Effects != perdure.ForkAsks && f.Effects != perdure.ForkDryRun {
		return engine.Session{}, fmt.Errorf("fork %s: %w effects %q: it must be %s or %s",
			id, perdure.Invalid, f.Effects, perdure.ForkAsks, perdure.ForkDryRun)
	}
	from, databases, err := e.readFork(ctx, id, f.At)
	if err == nil {
		err = e.makeFork(ctx, from, databases, f)
	}
	if err != nil {
		return engine.Session{}, fmt.Errorf("fork %s: %w", id, err)
	}
	return e.Sessions().Get(ctx, f.ID)
}

// readFork reads a session and its databases as of one moment. No SQL statement of the session runs
// in the meantime.
func (e hostSessions) readFork(
	ctx context.Context, id perdure.SessionID, at int64,
) (from forkSource, databases []sessionsql.Copy, err error) {
	frozen, err := e.freeze(ctx, id)
	if err != nil {
		return from, nil, err
	}
	defer frozen.Release()
	from, err = store.Read(ctx, e.cfg.Store, func(r store.Reader) (forkSource, error) {
		return e.readSource(r, id, at)
	})
	if err == nil {
		databases, err = frozen.copies(ctx, id)
	}
	return from, databases, err
}

// makeFork writes a fork, its databases first. It leaves the databases of an existing fork alone,
// because that fork may have changed them.
func (e hostSessions) makeFork(ctx context.Context, from forkSource, databases []sessionsql.Copy, f engine.Fork) error {
	e.createMu.Lock()
	defer e.createMu.Unlock()
	there, err := e.sessionExists(ctx, f.ID)
	undo := func() {}
	if err == nil && !there {
		undo, err = e.restoreOutsideStore(ctx,
			[]archivedSession{{SessionDump: store.SessionDump{Session: store.Session{ID: f.ID}}, databases: databases}})
	}
	if err != nil {
		return err
	}
	if err = e.cfg.Store.InTx(ctx, func(tx store.Tx) error { return e.beginFork(tx, from, f) }); err != nil {
		undo()
	}
	return err
}

// beginFork writes a fork in one commit: its row, its two events, its files and its values.
func (e hostSessions) beginFork(tx store.Tx, from forkSource, f engine.Fork) error {
	fact := from.forkedFact(f.Effects)
	switch known, err := tx.Journal().Events(f.ID, 0, 2); {
	case err != nil:
		return err
	case len(known) == 2:
		before, ok := known[1].Fact.(perdure.SessionForked)
		if ok && before.From == fact.From && before.Effects == fact.Effects && (f.At == 0 || before.Seq == fact.Seq) {
			return nil
		}
	}
	agent := from.session.Agent
	agent.Title, agent.Labels, agent.Subagent = cmp.Or(f.Title, from.title()), from.session.Labels, false
	agent.DryRun = agent.DryRun || f.Effects == perdure.ForkDryRun
	agent.AskEffects = agent.AskEffects || f.Effects == perdure.ForkAsks
	row := store.Session{
		ID: f.ID, Forked: fact.From, Org: from.row.Org, User: from.row.User, Title: agent.Title, Labels: agent.Labels,
		Status: perdure.SessionStarted, Home: from.row.Home, CreatedAt: tx.Now(), UpdatedAt: tx.Now(),
	}
	rand.Read(row.Secret[:]) // never fails
	if err := tx.Sessions().Create(row); err != nil {
		return err
	}
	events := []perdure.Event{{Fact: perdure.SessionCreated{Agent: agent}}, {Fact: fact}}
	for i := range events {
		events[i].ID, events[i].At, events[i].Actor = core.NewID[perdure.EventID](), tx.Now(), "user"
	}
	if err := tx.Journal().Append(f.ID, events); err != nil {
		return err
	}
	for _, file := range from.files {
		if _, err := tx.Files().Put(f.ID, file); err != nil {
			return err
		}
	}
	for _, v := range from.values {
		v.Session = f.ID
		if _, err := tx.Values().Put(v); err != nil {
			return err
		}
	}
	return nil
}

// forkSource is the session to fork: as of an event, with the current state of its work.
type forkSource struct {
	row      store.Session
	session  *perdure.Session // as of the event
	calls    map[perdure.CallID]perdure.Call
	tasks    map[perdure.TaskID]perdure.Task
	files    []store.File
	values   []store.Value                         // secrets are not copied (SE3)
	recorded map[perdure.CallID]perdure.ToolResult // from tool.completed, also after the event
	resolved []perdure.ToolResolved                // only after the event
	used     []perdure.CallID
}

// readSource reads a session as of an event; 0 means the last one. Invalid: no such event.
// Conflict: its files are at another home. The fork reads some of them and has copies of others,
// so it gets the home of its source.
func (e hostSessions) readSource(r store.Reader, id perdure.SessionID, at int64) (forkSource, error) {
	s := forkSource{
		session: perdure.NewSession(id), calls: map[perdure.CallID]perdure.Call{},
		tasks:    map[perdure.TaskID]perdure.Task{},
		recorded: map[perdure.CallID]perdure.ToolResult{},
	}
	row, err := r.Sessions().Get(id)
	if err == nil {
		err = e.effects.CheckFiles(r, row)
	}
	if err != nil {
		return s, err
	}
	s.row = row
	at = cmp.Or(at, row.LastSeq)
	if at < 0 || at > row.LastSeq {
		return s, fmt.Errorf("%w event %d: the journal has events 1 to %d", perdure.Invalid, at, row.LastSeq)
	}
	events, err := r.Journal().Events(id, 0, 0)
	for _, event := range events {
		if err == nil && event.Seq <= at {
			err = s.session.Apply(event)
		}
		s.note(event, event.Seq > at)
	}
	calls, callErr := r.Calls().List(store.CallFilter{Session: id})
	for _, c := range calls {
		s.calls[c.Key.Call] = c
	}
	tasks, taskErr := r.Tasks().List(store.TaskFilter{Session: id})
	for _, t := range tasks {
		s.tasks[t.ID] = t
	}
	files, fileErr := r.Files().List(id, "/", true)
	for _, f := range files {
		whole, err := r.Files().Get(id, f.Path)
		fileErr = errors.Join(fileErr, err)
		s.files = append(s.files, whole)
	}
	values, valueErr := r.Values().List(id)
	for _, v := range values {
		whole, err := r.Values().Get(id, v.Key)
		valueErr = errors.Join(valueErr, err)
		s.values = append(s.values, whole)
	}
	return s, errors.Join(err, callErr, taskErr, fileErr, valueErr)
}

// note collects what an event records about calls.
func (s *forkSource) note(e perdure.Event, later bool) {
	switch f := e.Fact.(type) {
	case perdure.SessionForked:
		s.used = append(s.used, f.UsedCalls...)
	case perdure.OutputCompleted:
		for _, c := range f.Message.Calls() {
			s.used = append(s.used, c.ID)
		}
	case perdure.ToolCompleted:
		s.recorded[f.CallID] = f.Result
	case perdure.ToolResolved:
		if later {
			s.resolved = append(s.resolved, f)
		}
	}
}

// title returns the default title of a fork.
func (s forkSource) title() string {
	if s.session.Title == "" {
		return ""
	}
	return "Fork of " + s.session.Title
}

// forkedFact builds the first event of the fork after session.created.
func (s forkSource) forkedFact(effects string) perdure.SessionForked {
	f := perdure.SessionForked{
		From: s.session.ID, Seq: s.session.Seq, Effects: effects, UsedCalls: s.used, Compaction: s.session.Compacted,
	}
	transcript, first, late := s.completedTranscript()
	f.Transcript = transcript
	if len(late) > 0 && first < max(f.Compaction.Drop, f.Compaction.Masked) {
		f.Compaction = perdure.Compaction{} // its positions no longer match the transcript
	}
	for _, m := range s.session.Notifications {
		if m.Metadata[perdure.MetaTask] == "" { // questions of tasks cannot be answered in the fork
			f.Transcript = append(f.Transcript, m)
		}
	}
	for _, r := range s.resolved {
		if _, open := s.session.UnknownCalls[r.CallID]; open {
			f.Transcript = append(f.Transcript, r.Message)
		}
	}
	ended, live := s.backgroundWork(late)
	for _, t := range ended {
		f.Transcript = append(f.Transcript, notice(t.Notification()))
	}
	f.Transcript = append(f.Transcript, notice(s.forkNotice(effects, live)))
	f.Transcript = append(f.Transcript, s.session.Queue...) // received, but not read by the model yet
	return f
}

// completedTranscript returns a transcript in which every call has its result (TN16), the calls
// that had none, and the position of the first added result.
func (s forkSource) completedTranscript() (transcript []perdure.Message, first int, late []perdure.CallID) {
	all := s.session.Transcript
	for i := 0; i < len(all); {
		m := all[i]
		transcript = append(transcript, m)
		i++
		open := m.Calls()
		for ; i < len(all) && len(open) > 0 && all[i].Role == perdure.RoleToolResult; i++ {
			transcript = append(transcript, all[i])
			for _, part := range all[i].Parts {
				open = slices.DeleteFunc(open,
					func(c perdure.ToolCall) bool { return part.Result != nil && part.Result.CallID == c.ID })
			}
		}
		for _, call := range open {
			if len(late) == 0 {
				first = len(transcript)
			}
			late = append(late, call.ID)
			result := s.result(call.ID)
			transcript = append(transcript, perdure.Message{
				Role: perdure.RoleToolResult, Parts: []perdure.Part{{Type: perdure.PartToolResult, Result: &result}},
			})
		}
	}
	return transcript, first, late
}

// result returns what is known now about a call that had no result yet (TN17). A call whose task
// continues gets its placeholder.
func (s forkSource) result(id perdure.CallID) perdure.ToolResult {
	row, claimed := s.calls[id]
	if claimed && row.State == perdure.CallSettled && row.Result != nil {
		result := *row.Result
		result.CallID = id
		return result
	}
	if result, ok := s.recorded[id]; ok {
		return result
	}
	if claimed {
		return perdure.Failed(id, perdure.ErrorUnknown, perdure.TextUnknown)
	}
	return perdure.Refused(id, perdure.ErrorInterrupted, perdure.TextNotExecuted)
}

// backgroundWork returns the background work whose result is not in the transcript, oldest first:
// ended and loop tasks. It covers the tasks as of the event, and those that the late calls became
// or started afterwards.
func (s forkSource) backgroundWork(late []perdure.CallID) (ended, live []perdure.Task) {
	open := slices.Collect(maps.Values(s.session.Tasks))
	for _, t := range s.tasks {
		_, then := s.session.Tasks[t.ID]
		told := t.FromCall() && s.calls[t.Call].State == perdure.CallSettled // the call has its result
		if !then && !told && slices.Contains(late, t.Call) {
			open = append(open, t)
		}
	}
	slices.SortFunc(open, func(a, b perdure.Task) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), cmp.Compare(a.ID, b.ID))
	})
	for _, then := range open {
		_, known := s.session.Tasks[then.ID]
		told := known && then.Delivered != "" && then.Delivered != perdure.NotDelivered
		if then.Lane == perdure.Foreground || told {
			continue // the call or the transcript has the result
		}
		now, kept := s.tasks[then.ID]
		if !kept { // pruned
			now = then
		}
		if now.State.Terminal() {
			ended = append(ended, now)
		} else {
			live = append(live, now)
		}
	}
	return ended, live
}

// forkNotice returns the notification that explains the fork to the model.
func (s forkSource) forkNotice(effects string, live []perdure.Task) string {
	text := fmt.Sprintf("From here on, this conversation is a fork of session %s at event %d. "+
		"Work that was done there is not repeated.\n", s.session.ID, s.session.Seq)
	if effects == perdure.ForkDryRun {
		text += "This fork changes nothing: tools that would change something only report what they would do."
	} else {
		text += "A person must approve each call of a tool that changes something."
	}
	if len(live) == 0 {
		return text
	}
	lines := []string{text, "The following background work stays with that session. " +
		"It continues there, and its results are not delivered here:"}
	for _, t := range live {
		line := "- " + string(t.ID)
		if t.Run != "" {
			line += " (" + string(t.Run) + ")"
		}
		lines = append(lines, line+" "+t.Tool)
	}
	return strings.Join(lines, "\n")
}

// notice creates a notification of the runtime.
func notice(text string) perdure.Message {
	return perdure.Message{
		ID: core.NewMessageID(), Role: perdure.RoleNotification,
		Parts: []perdure.Part{{Type: perdure.PartText, Text: text}},
	}
}
