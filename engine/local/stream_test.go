package local_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

const (
	streamed     = "I look into every drawer, one after another, and note what is there."
	streamScript = `
prefix: true
rules:
  - when: {not_called: note}
    text: ` + streamed + `
    chunk: 9
    calls: [{name: note, args: {text: a}}]
steps: [{text: done, repeat: true}]
`
)

// talk is the content of a conversation, by role.
func talk(t *testing.T, eng engine.Engine, id perdure.SessionID) (lines []string, fold *perdure.Session) {
	t.Helper()
	events, err := eng.Events(context.Background(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	fold = perdure.NewSession(id)
	for _, e := range events {
		if err := fold.Apply(e); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range fold.Transcript {
		line := string(m.Role) + ": " + m.Text()
		for _, p := range m.Parts {
			if p.Result != nil {
				line += string(p.Result.Result)
			}
		}
		lines = append(lines, line)
	}
	return lines, fold
}

// checkpointOf reads the stored text of a session's open message; empty: none.
func checkpointOf(t *testing.T, st store.Store, id perdure.SessionID) string {
	t.Helper()
	fold := perdure.NewSession(id)
	err := st.View(t.Context(), func(r store.Reader) error {
		events, err := r.Journal().Events(id, 0, 0)
		for _, e := range events {
			err = errors.Join(err, fold.Apply(e))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if fold.Turn == nil || !fold.Turn.OutputOpen {
		return ""
	}
	return partialOf(t, st, id, fold.Turn.Message)
}

func partialOf(t *testing.T, st store.Store, id perdure.SessionID, message perdure.MessageID) string {
	t.Helper()
	var p store.Partial
	err := st.View(t.Context(), func(r store.Reader) (err error) {
		p, err = r.Journal().Partial(id, message)
		return err
	})
	if err != nil && !errors.Is(err, perdure.NotFound) {
		t.Fatal(err)
	}
	return p.Text
}

// started are the messages that were opened.
func started(t *testing.T, eng engine.Engine, id perdure.SessionID) (ids []perdure.MessageID) {
	t.Helper()
	events, err := eng.Events(t.Context(), id, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if f, ok := e.Fact.(perdure.OutputStarted); ok {
			ids = append(ids, f.MessageID)
		}
	}
	return ids
}

// killStream runs one crash, and returns the checkpoint that it left.
func killStream(t *testing.T, policy perdure.RecoveryMode, point death) (kept string, died bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	st := memory.New(memory.Config{})
	w := newWorld(t, enginetest.Setup{Script: streamScript, Checkpoint: 1, MaxRuns: 5}, func(*testing.T) store.Store { return st }, func(store.Store) {})
	eng := w.Start(t)
	s, err := eng.Sessions().Create(ctx, perdure.Agent{Recovery: policy})
	if err != nil {
		t.Fatal(err)
	}
	w.Stop(t)
	if _, err := eng.Send(ctx, s.ID, perdure.Text("look")); err != nil {
		t.Fatal(err)
	}
	w.point = point
	mortal := w.Start(t)
	rest := make(chan error, 1) // one result; nobody may be listening
	go func() { rest <- mortal.Sessions().WaitIdle(ctx, s.ID) }()
	select {
	case <-w.mortal.Died:
		died = true
	case err := <-rest:
		if err != nil {
			t.Fatalf("without a death: %v", err)
		}
	}
	w.Kill(t)
	kept = checkpointOf(t, st, s.ID)
	eng = w.Start(t)
	if err := eng.Sessions().WaitIdle(ctx, s.ID); err != nil {
		t.Fatalf("%+v: %v", point, err)
	}
	checkStream(t, eng, st, streamEnd{id: s.ID, policy: policy, kept: kept, effects: len(w.Effects("note"))})
	w.Kill(t)
	return kept, died
}

// streamEnd is the state that a crash left.
type streamEnd struct {
	id      perdure.SessionID
	policy  perdure.RecoveryMode
	kept    string
	effects int
}

func checkStream(t *testing.T, eng engine.Engine, st store.Store, end streamEnd) {
	t.Helper()
	lines, fold := talk(t, eng, end.id)
	cut := slices.IndexFunc(fold.Transcript, func(m perdure.Message) bool { return m.Interrupted })
	switch {
	case cut >= 0 && (end.policy != perdure.RecoverFinalize || !strings.HasPrefix(fold.Transcript[cut].Text(), end.kept)):
		t.Errorf("%q was kept: got %q", end.kept, lines)
	case cut >= 0: // it is kept, with a note; the next answer repeats it
		lines = slices.Delete(lines, cut, cut+2)
	case end.kept != "" && end.policy == perdure.RecoverFinalize:
		t.Errorf("%q was kept and is lost: got %q", end.kept, lines)
	}
	want := []string{"user: look", "agent: " + streamed, `tool_result: {"noted":"a"}`, "agent: done"}
	if !slices.Equal(lines, want) {
		t.Errorf("%q was kept: got %q, want %q", end.kept, lines, want)
	}
	if end.effects > 2 || end.effects == 0 {
		t.Errorf("%d effects", end.effects)
	}
	for _, id := range started(t, eng, end.id) {
		if text := partialOf(t, st, end.id, id); text != "" {
			t.Errorf("a checkpoint of %s is left: %q", id, text)
		}
	}
}

// unreadable is a store whose checkpoints cannot be read for a while.
type unreadable struct {
	store.Store
	fails atomic.Bool
	tried chan struct{} // capacity 1: a read was tried
}

func (u *unreadable) View(ctx context.Context, fn func(store.Reader) error) error {
	return u.Store.View(ctx, func(r store.Reader) error { return fn(unreadableView{r, u}) })
}

type unreadableView struct {
	store.Reader
	u *unreadable
}

// unreadableViewJournal overrides a part of one noun.
type unreadableViewJournal struct {
	store.JournalView
	unreadableView
}

func (v unreadableView) Journal() store.JournalView {
	return unreadableViewJournal{v.Reader.Journal(), v}
}

func (v unreadableViewJournal) Partial(session perdure.SessionID, message perdure.MessageID) (store.Partial, error) {
	if !v.u.fails.Load() {
		return v.JournalView.Partial(session, message)
	}
	select {
	case v.u.tried <- struct{}{}:
	default:
	}
	return store.Partial{}, fmt.Errorf("%w: no checkpoints", perdure.Unavailable)
}

// openAnswer creates a session over a store whose turn has an open message with stored text, and
// completed ones before it.
func openAnswer(t *testing.T, w *world, agent perdure.Agent, text string) perdure.SessionID {
	t.Helper()
	st := w.open(t)
	eng := w.Start(t)
	s, err := eng.Sessions().Create(t.Context(), agent)
	if err != nil {
		t.Fatal(err)
	}
	w.Stop(t)
	m := func(n int) perdure.MessageID { return perdure.MessageID(fmt.Sprintf("message_%032d", n)) }
	turn := perdure.TurnID("turn_" + strings.Repeat("1", 32))
	input := perdure.Text("look")
	input.ID = m(1)
	first := perdure.Message{ID: m(2), Role: perdure.RoleAgent, Parts: []perdure.Part{
		{Type: perdure.PartText, Text: "first"},
		{Type: perdure.PartToolCall, Call: &perdure.ToolCall{ID: "call_1", Name: "nonsense", Arguments: []byte("{}")}},
	}}
	refused := perdure.Refused("call_1", perdure.ErrorRejected, "no such tool")
	facts := []perdure.Fact{
		perdure.MessageReceived{Message: input, Source: "user"}, perdure.SessionActivated{TurnID: turn},
		perdure.TurnStarted{TurnID: turn, Cause: perdure.CauseMessage, MessageID: input.ID},
		perdure.ReasonStarted{ExecID: "exec_1", MessageID: first.ID, Iteration: 1, Attempt: 1, Inputs: []perdure.MessageID{input.ID}},
		perdure.OutputStarted{MessageID: first.ID}, perdure.OutputCompleted{Message: first},
		perdure.ReasonCompleted{ExecID: "exec_1", Success: true, ToolCallCount: 1},
		perdure.ActStarted{Calls: []perdure.PlannedCall{{ID: "call_1", Name: "nonsense", Refusal: &refused}}},
		perdure.ToolCompleted{CallID: "call_1", Name: "nonsense", Status: refused.Status(), Result: refused}, perdure.ActCompleted{ErrorCount: 1},
		perdure.ReasonStarted{ExecID: "exec_2", MessageID: m(3), Iteration: 2, Attempt: 1}, perdure.OutputStarted{MessageID: m(3)},
	}
	var events []perdure.Event
	for i, f := range facts {
		events = append(events, perdure.Event{ID: perdure.EventID(fmt.Sprintf("event_%032d", i)), At: time.Now(), Turn: turn, Fact: f})
	}
	err = st.InTx(t.Context(), func(tx store.Tx) error {
		if _, err := tx.Sessions().Acquire(s.ID, "worker_dead"); err != nil {
			return err
		}
		if err := tx.Journal().Append(s.ID, events); err != nil {
			return err
		}
		return tx.Journal().PutPartial(store.Partial{Session: s.ID, Message: m(3), Text: text})
	})
	if err != nil {
		t.Fatal(err)
	}
	return s.ID
}

const afterFirst = `
prefix: true
steps: [{text: x}, {text: a second answer}, {text: over, repeat: true}]
`

// TestPartialKeyedByMessage: a complete first message of the turn does not hide an interrupted
// second one (TN19).
func TestPartialKeyedByMessage(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Config{})
	w := newWorld(t, enginetest.Setup{Script: afterFirst}, func(*testing.T) store.Store { return st }, func(store.Store) {})
	id := openAnswer(t, w, perdure.Agent{}, "a second \n")

	eng := w.Start(t)
	if err := eng.Sessions().WaitIdle(t.Context(), id); err != nil {
		t.Fatal(err)
	}

	lines, fold := talk(t, eng, id)
	if len(lines) != 4 || lines[1] != "agent: first" || lines[3] != "agent: a second answer" || partialOf(t, st, id, fold.Transcript[3].ID) != "" {
		t.Errorf("got %q", lines)
	}
}

// TestPartialReadBeforeTheModel: while the checkpoint cannot be read, no model request is made,
// since its text would appear twice.
func TestPartialReadBeforeTheModel(t *testing.T) {
	t.Parallel()
	st := &unreadable{Store: memory.New(memory.Config{}), tried: make(chan struct{}, 1)}
	w := newWorld(t, enginetest.Setup{Script: afterFirst}, func(*testing.T) store.Store { return st }, func(store.Store) {})
	id := openAnswer(t, w, perdure.Agent{Recovery: perdure.RecoverFinalize}, "a second")
	st.fails.Store(true)
	eng := w.Start(t)

	for range 3 {
		<-st.tried
	}
	_, fold := talk(t, eng, id)
	if fold.Turn == nil || fold.Turn.Exec != "exec_2" || fold.Turn.LLMCallCount != 2 {
		t.Fatalf("it continued: %+v", fold.Turn)
	}
	st.fails.Store(false)
	if err := eng.Sessions().WaitIdle(t.Context(), id); err != nil {
		t.Fatal(err)
	}

	if lines, fold := talk(t, eng, id); len(lines) != 6 || lines[3] != "agent: a second" || !fold.Transcript[3].Interrupted {
		t.Errorf("got %q", lines)
	}
}

// TestGuardOverAKeptText: a guardrail checks the stored text before its answer is continued or kept
// (TN9).
func TestGuardOverAKeptText(t *testing.T) {
	t.Parallel()
	st := memory.New(memory.Config{})
	w := newWorld(t, enginetest.Setup{Script: afterFirst, Guard: "second"}, func(*testing.T) store.Store { return st }, func(store.Store) {})
	id := openAnswer(t, w, perdure.Agent{Recovery: perdure.RecoverFinalize}, "a second")

	eng := w.Start(t)
	if err := eng.Sessions().WaitIdle(t.Context(), id); err != nil {
		t.Fatal(err)
	}

	lines, fold := talk(t, eng, id)
	if len(lines) != 4 || lines[3] != "agent: [withheld]" || partialOf(t, st, id, fold.Transcript[3].ID) != "" {
		t.Errorf("got %q", lines)
	}
}

// TestGuardLeavesNothing: text that tripped a guardrail was never in a checkpoint (TN9).
func TestGuardLeavesNothing(t *testing.T) {
	t.Parallel()
	st := &listening{Store: memory.New(memory.Config{})}
	w := newWorld(t, enginetest.Setup{
		Script: "steps: [{text: the word is hunter2 and no other, chunk: 3}]", Checkpoint: 1, Guard: "hunt",
	}, func(*testing.T) store.Store { return st }, func(store.Store) {})
	eng := w.Start(t)
	s, err := eng.Sessions().Create(t.Context(), perdure.Agent{})
	if err == nil {
		_, err = eng.Send(t.Context(), s.ID, perdure.Text("tell me"))
	}
	if err == nil {
		err = eng.Sessions().WaitIdle(t.Context(), s.ID)
	}
	if err != nil {
		t.Fatal(err)
	}
	w.Stop(t)

	if len(st.texts) == 0 || slices.ContainsFunc(st.texts, func(text string) bool { return strings.Contains(text, "hunt") }) {
		t.Errorf("got %q", st.texts)
	}
	for _, id := range started(t, eng, s.ID) {
		if text := partialOf(t, st, s.ID, id); text != "" {
			t.Errorf("%q is left", text)
		}
	}
}

// listening is a store that records every checkpoint. One driver writes them.
type listening struct {
	store.Store
	texts []string
}

func (l *listening) InTx(ctx context.Context, fn func(store.Tx) error) error {
	return l.Store.InTx(ctx, func(tx store.Tx) error { return fn(listeningTx{tx, l}) })
}

type listeningTx struct {
	store.Tx
	l *listening
}

// listeningTxJournal overrides a part of one noun.
type listeningTxJournal struct {
	store.Journal
	listeningTx
}

func (t listeningTx) Journal() store.Journal { return listeningTxJournal{t.Tx.Journal(), t} }

// listeningTxReader reads what the transaction shows.
type listeningTxReader struct {
	store.Reader
	tx listeningTx
}

func (t listeningTx) Reader() store.Reader { return listeningTxReader{t.Tx.Reader(), t} }

func (r listeningTxReader) Journal() store.JournalView { return r.tx.Journal() }

func (t listeningTxJournal) PutPartial(p store.Partial) error {
	t.l.texts = append(t.l.texts, p.Text)
	return t.Journal.PutPartial(p)
}

// gives is a model that breaks off after the start of its answer. It returns the rest only if the
// request contains the start, and another answer otherwise.
type gives struct {
	begins, rest string

	mu       sync.Mutex
	prefixes []string // guarded by mu; of the requests, in order
}

var _ model.Prefixer = (*gives)(nil)

func (*gives) ContinuesFrom(string) bool { return true }

func (g *gives) Stream(_ context.Context, req model.Request) iter.Seq2[model.Delta, error] {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.prefixes = append(g.prefixes, req.Prefix)
	first := len(g.prefixes) == 1
	return func(yield func(model.Delta, error) bool) {
		switch {
		case req.Prefix != "":
			_ = yield(model.Delta{Text: g.rest, Finish: model.FinishStop}, nil)
		case first:
			_ = yield(model.Delta{Text: g.begins}, nil) && yield(model.Delta{}, &model.Error{Code: model.Unavailable, Text: "it broke off"})
		default:
			_ = yield(model.Delta{Text: "Another answer.", Finish: model.FinishStop}, nil)
		}
	}
}

// TestPrefixIsSent: the request to a model that continues an answer contains the start of it,
// without white space at the end, whether the provider or the engine broke it off (TN20).
func TestPrefixIsSent(t *testing.T) {
	t.Parallel()
	const begins, prefix, rest = "In the second \n", "In the second", " drawer."
	t.Run("after_the_provider", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			m := &gives{begins: begins, rest: rest}

			s := converse(t, local.Config{Store: memory.New(memory.Config{}), Model: m, Tools: tool.NewRegistry()}, perdure.Agent{}, "where?")

			if got := s.Transcript[len(s.Transcript)-1].Text(); got != prefix+rest || len(s.Transcript) != 2 || !slices.Equal(m.prefixes, []string{"", prefix}) {
				t.Errorf("%d messages, the last one %q, after the prefixes %q", len(s.Transcript), got, m.prefixes)
			}
		})
	})
	t.Run("after_the_engine", func(t *testing.T) {
		t.Parallel()
		st := memory.New(memory.Config{})
		w := newWorld(t, enginetest.Setup{Script: afterFirst}, func(*testing.T) store.Store { return st }, func(store.Store) {})
		id := openAnswer(t, w, perdure.Agent{}, begins)
		m := &gives{rest: rest}
		eng, err := local.Open(t.Context(), local.Config{Store: st, Model: m, Tools: tool.NewRegistry()})
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		ended := make(chan error, 1) // one end
		go func() { ended <- eng.Run(ctx) }()
		if err := eng.Sessions().WaitIdle(ctx, id); err != nil {
			t.Error(err)
		}
		lines, _ := talk(t, eng, id)
		stop()
		<-ended

		if len(lines) != 4 || lines[3] != "agent: "+prefix+rest || !slices.Equal(m.prefixes, []string{prefix}) {
			t.Errorf("got %q after the prefixes %q", lines, m.prefixes)
		}
	})
}
