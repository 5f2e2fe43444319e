// Package enginetest holds the laws that every Engine keeps.
//
// It may import the root and engine. The one thing to know: a law sees an engine only through its port, and
// what happened outside only through the harness, which plays the outside world. A law that crashes an
// engine asks the harness for its death: the store stays, and everything else is gone.
package enginetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/budget"
	"github.com/perdure/perdure/engine"
)

// patience bounds every wait of a law.
const patience = 60 * time.Second

// Setup says what an engine under test is made of. Its tools are those of the list below.
//
//	echo, serial     pure          answers {"said": text}; serial has the concurrency class "one"
//	note             idempotent    one effect, answers {"noted": text}
//	charge           at_most_once  one effect, answers {"charged": text}
//	needs            at_most_once  requires approval: one effect, answers {"did": text}
//	reads            pure          answers {"read": text}; wants the permissions path text and host example.org
//	guarded          at_most_once  one effect, and can reconcile
//	hold             pure          runs until it is released, or its context ends
//	hold_note        idempotent    one effect, then as hold
//	hold_charge      at_most_once  one effect, then as hold
//	hold_stubborn    pure          does not end with its context, only when released
//	hold_late        pure          as hold, soft budget 50 ms, deadline 1.5 s
//	hold_silent      pure          as hold, ends after 50 ms without a sign of life
//	stream_hold      pure          three lines of output, then as hold, then a fourth
//	fail             pure          tool error "boom"
//	break, panic     pure          internal error "secret cause"
//	client           at_most_once  the client answers it; client_late waits 1.5 s for it
//	connect          idempotent    needs a connection to github
//	permit           idempotent    asks for an approval in the middle; one effect if it gets it
//	ask              idempotent    asks a question, then as hold under the name ask_after; answers {"heard": …}
//	ask_number       idempotent    as ask, and wants {"n": integer} to hear
//	ask_once         at_most_once  as ask
//	ask_late         idempotent    writes a line and asks a question, deadline 1.5 s
//	ask_twice        idempotent    asks two questions; each time a tool asks, it enters "asks"
//	inbox            pure          waits for a message and answers {"heard": …}
//	stream           pure          background: three lines of output, then {"status":"ok"}
//	flood            pure          background: more output than a log keeps
//	bg_note, bg_once idempotent, at_most_once  background: one effect
//	bg_needs         at_most_once  background, requires approval: one effect
//	bg_hold          idempotent    background: a line of output, then as hold
//	bg_charge        at_most_once  background: one effect, then as hold
//	bg_fail          pure          background: a line of output, then tool error "boom"
//	bg_break         pure          background: internal error "secret cause"
//	bg_stubborn      pure          background: does not end with its context, only when released
type Setup struct {
	Script     string        // of the scripted model, in its own format
	Agent      perdure.Agent // of the session
	Reject     bool          // overflow policy reject instead of queue
	Evict      bool          // overflow policy evict_oldest instead of queue
	EvictCap   int           // 0: the default
	PerSession int           // places of a session; 0: the default
	Detached   int           // calls of a session that left the foreground; 0: the default
	Grace      time.Duration // 0: the default
	MaxRuns    int           // executions of a call; 0: the default
	Beat       time.Duration // of the worker, which closes what has run out of time; 0: so long that no law sees one

	Agents     int    // subagents at work; 0: the default
	Checkpoint int    // bytes of new text of an answer before it is kept; 0: the default
	Guard      string // a word; an answer that has it is replaced by "[withheld]", by the host's guard "word"

	Webhooks       string        // a folder for the keyring: events are sent, also to receivers on 127.0.0.1; empty: none are
	Prices         *budget.Table // what models and tools cost; nil: what comes with the program
	SoftBudget     time.Duration // of tools that name none; 0: the default
	ApprovalExpiry time.Duration // 0: never
	Background     []string      // tools that the host routes to the background
	Ask            []string      // targets of permissions, tools among them, that the host asks a person about
	Deny           []string      // those that it denies
	Panics         []string      // those that its policy falls over
	Hook           string        // what the host's hook does to all but spawn_background: rewrite, restless, block, defer, replace, withhold
}

// World is the outside of one engine under test, and its store, over all its deaths.
type World interface {
	Lives
	Outside
}

// Lives starts and ends engines over one store, one after another.
type Lives interface {
	// Start makes an engine over the store and runs it.
	Start(t *testing.T) engine.Engine
	// Kill ends the running engine as SIGKILL would: from now on it changes nothing.
	Kill(t *testing.T)
	// Stop ends the running engine by its context and returns when it has ended.
	Stop(t *testing.T)
	// Commits counts the transactions that the engines have made, without those of their workers.
	Commits() int
}

// Outside is what the tools reach.
type Outside interface {
	// Effects returns the idempotency keys under which a tool had its effect, in order.
	Effects(tool string) []string
	// Entered waits until a hold tool runs, for the nth time over all deaths, from 1.
	Entered(t *testing.T, tool string, n int)
	// Release lets a hold tool end, now and for ever.
	Release(tool string)
}

// Harness opens worlds. Each law gets a fresh one.
type Harness func(t *testing.T, s Setup) World

// law is one promise.
type law struct {
	name  string
	check func(t *testing.T, open Harness)
}

// Run checks all laws.
func Run(t *testing.T, open Harness) {
	groups := map[string][]law{
		"turn": turnLaws(), "task": taskLaws(), "spawn": spawnLaws(), "cancel": cancelLaws(), "crash": crashLaws(), "intent": intentLaws(),
		"lane": append(laneLaws(), laneCrashLaws()...), "approval": append(approvalLaws(), approvalTaskLaws()...), "client": clientLaws(),
		"talk": talkLaws(), "delivery": deliveryLaws(), "overflow": overflowLaws(), "regression": regressionLaws(), "stream": streamLaws(), "subagent": append(subagentLaws(), subagentAttackLaws()...),
		"fork": forkLaws(), "budget": budgetLaws(), "pause": pauseLaws(), "archive": archiveLaws(), "ledger": ledgerLaws(), "hostcall": hostCallLaws(), "repeat": repeatLaws(), "remove": removeLaws(), "schedule": scheduleLaws(), "storage": storageLaws(), "webhook": webhookLaws(),
	}
	for group, laws := range groups {
		t.Run(group, func(t *testing.T) {
			t.Parallel()
			for _, l := range laws {
				t.Run(l.name, func(t *testing.T) {
					t.Parallel()
					l.check(t, open)
				})
			}
		})
	}
}

// scene is a session in an engine under test.
type scene struct {
	World
	t   *testing.T
	ctx context.Context
	eng engine.Engine
	id  perdure.SessionID
}

// begin opens a world with a script and starts a session in it.
func begin(t *testing.T, open Harness, setup Setup) *scene {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	s := &scene{World: open(t, setup), t: t, ctx: ctx}
	s.eng = s.Start(t)
	agent := setup.Agent
	agent.Instructions = "You are tested."
	session, err := s.eng.NewSession(ctx, agent)
	if err != nil {
		t.Fatalf("NewSession: %v", err)
	}
	s.id = session.ID
	return s
}

// say sends a message.
func (s *scene) say(text string) {
	s.t.Helper()
	if err := s.eng.Send(s.ctx, s.id, perdure.Text(text)); err != nil {
		s.t.Fatalf("Send: %v", err)
	}
}

// rest waits until the session is at rest.
func (s *scene) rest() {
	s.t.Helper()
	if err := s.eng.WaitIdle(s.ctx, s.id); err != nil {
		s.t.Fatalf("WaitIdle: %v; journal:\n%s", err, s.story())
	}
}

// crash kills the engine and starts another one over the same store.
func (s *scene) crash() {
	s.t.Helper()
	s.Kill(s.t)
	s.eng = s.Start(s.t)
}

// events returns the journal.
func (s *scene) events() []perdure.Event {
	s.t.Helper()
	events, err := s.eng.Events(context.WithoutCancel(s.ctx), s.id, 0, 0)
	if err != nil {
		s.t.Fatalf("Events: %v", err)
	}
	return events
}

// story writes the journal for a failure's text.
func (s *scene) story() string {
	var text string
	for _, e := range s.events() {
		line, err := perdure.EncodeEvent(e)
		if err != nil {
			s.t.Fatal(err)
		}
		text += string(line) + "\n"
	}
	return text
}

// until waits for the first event that matches.
func (s *scene) until(what string, match func(perdure.Event) bool) perdure.Event {
	s.t.Helper()
	var found perdure.Event
	stop := errors.New("found")
	err := s.eng.Follow(s.ctx, s.id, 0, func(f engine.Frame) error {
		if f.Event == nil || !match(*f.Event) {
			return nil
		}
		found = *f.Event
		return stop
	})
	if !errors.Is(err, stop) {
		s.t.Fatalf("no %s: %v; journal:\n%s", what, err, s.story())
	}
	return found
}

// facts returns the facts of one type, in order.
func facts[T perdure.Fact](s *scene) []T {
	var all []T
	for _, e := range s.events() {
		if f, ok := e.Fact.(T); ok {
			all = append(all, f)
		}
	}
	return all
}

// fold folds the journal; one that does not fold fails the law.
func (s *scene) fold() *perdure.Session {
	s.t.Helper()
	session := perdure.NewSession(s.id)
	for _, e := range s.events() {
		if err := session.Apply(e); err != nil {
			s.t.Fatalf("fold: %v; journal:\n%s", err, s.story())
		}
	}
	return session
}

// final is the text of the last message of the agent.
func (s *scene) final() string {
	transcript := s.fold().Transcript
	for i := len(transcript) - 1; i >= 0; i-- {
		if transcript[i].Role == perdure.RoleAgent {
			return transcript[i].Text()
		}
	}
	return ""
}

// onlyTask returns the one task of the session.
func (s *scene) onlyTask() perdure.Task {
	s.t.Helper()
	tasks, err := s.eng.Tasks(s.ctx, s.id)
	if err != nil || len(tasks) != 1 {
		s.t.Fatalf("Tasks: %d, %v; journal:\n%s", len(tasks), err, s.story())
	}
	return tasks[0]
}

// onlyResult returns the one result of a tool in the transcript.
func (s *scene) onlyResult(name string) perdure.ToolCompleted {
	s.t.Helper()
	var found []perdure.ToolCompleted
	for _, f := range facts[perdure.ToolCompleted](s) {
		if f.Name == name {
			found = append(found, f)
		}
	}
	if len(found) != 1 {
		s.t.Fatalf("%d results of %s, want 1; journal:\n%s", len(found), name, s.story())
	}
	return found[0]
}
