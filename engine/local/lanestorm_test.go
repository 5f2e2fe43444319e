package local_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/engine"
	"github.com/perdure/perdure/engine/enginetest"
	"github.com/perdure/perdure/engine/local"
	"github.com/perdure/perdure/internal/chaos"
	"github.com/perdure/perdure/internal/enginerig"
	"github.com/perdure/perdure/internal/soak"
	"github.com/perdure/perdure/store"
	"github.com/perdure/perdure/store/faulty"
	"github.com/perdure/perdure/store/memory"
	"github.com/perdure/perdure/tool"
)

// The sizes of a lane storm.
const (
	laneSteps   = 1_000       // of all programs of a test together
	laneProgram = 250         // steps of one program
	laneAtOnce  = 6           // concurrent programs
	lanePlaces  = 2           // slots of a session, for running and for detached calls each
	laneRest    = time.Minute // for released work to end
)

// laneStorm is one program: random actions on two sessions, over several engines.
type laneStorm struct {
	*stage
	ctx      context.Context
	dice     *rand.Rand
	st       *memory.Store
	ids      []perdure.SessionID
	registry *tool.Registry
	faults   float64 // share of transactions that fail or are in doubt
	life     *laneLife
	calmed   atomic.Bool

	fmu   sync.Mutex
	fdice *rand.Rand // guarded by fmu

	dmu     sync.Mutex
	drained map[perdure.TaskID]int                 // guarded by dmu
	folds   map[perdure.SessionID]*perdure.Session // guarded by dmu; as far as they were read
}

// laneLife is one engine.
type laneLife struct {
	eng    *local.Engine
	mortal *enginerig.KillableStore
	doomed bool          // it dies at one of its transactions, if it reaches it
	over   chan struct{} // closed when the process dies
	stop   context.CancelFunc
	ended  chan error
}

// playLanes runs the program of one seed and returns the violations.
func playLanes(ctx context.Context, seed uint64, steps int) (*laneStorm, error) {
	s := &laneStorm{
		stage: newStage(seed), ctx: ctx, dice: rand.New(rand.NewPCG(seed, 3)), fdice: rand.New(rand.NewPCG(seed, 4)),
		st: memory.New(memory.Config{}), drained: map[perdure.TaskID]int{}, folds: map[perdure.SessionID]*perdure.Session{},
	}
	s.registry = s.tools()
	if s.dice.IntN(2) == 0 {
		s.faults = 0.05
	}
	if err := s.start(enginerig.KillPoint{}); err != nil {
		return s, err
	}
	for n := range 2 {
		id := perdure.SessionID(fmt.Sprintf("session_%032x", 2*seed+uint64(n)+1))
		agent := perdure.Agent{ClientTools: true, SerialCalls: s.dice.IntN(4) == 0}
		if err := s.insist(func() error { _, err := s.life.eng.Sessions().CreateAs(ctx, id, agent); return err }); err != nil {
			return s, err
		}
		s.ids = append(s.ids, id)
	}
	err := s.run(steps)
	if err == nil {
		err = s.settle()
	}
	if err == nil {
		err = s.places()
	}
	s.die(false)
	s.judge(err == nil)
	return s, err
}

// insist retries an action that injected faults may break.
func (s *laneStorm) insist(do func() error) (err error) {
	for range 100 {
		if err = do(); err == nil || !errors.Is(err, perdure.Unavailable) {
			return err
		}
	}
	return err
}

// weather injects faults into the store of one engine, after the transaction that registers its
// worker.
func (s *laneStorm) weather() store.Store {
	if s.faults == 0 {
		return s.st
	}
	return faulty.New(s.st, faulty.Plan{At: func(p faulty.Point) faulty.Fault {
		if s.calmed.Load() || p.Method != "InTx" && p.Method != "View" || p.Method == "InTx" && p.N == 1 {
			return faulty.Fault{}
		}
		s.fmu.Lock()
		defer s.fmu.Unlock()
		if s.fdice.Float64() >= s.faults {
			return faulty.Fault{}
		}
		return faulty.Fault{Act: []faulty.Act{faulty.Fail, faulty.DoAndTimeout}[s.fdice.IntN(2)]}
	}})
}

// start creates an engine that dies at a point, if there is one.
func (s *laneStorm) start(point enginerig.KillPoint) error {
	over := make(chan struct{})
	s.mu.Lock()
	s.stage.life++
	s.stage.over = over
	s.mu.Unlock()
	var count atomic.Int64
	l := &laneLife{mortal: enginerig.NewKillableStore(s.weather(), &count, point), doomed: point.N > 0, over: over, ended: make(chan error, 1)}
	eng, err := local.Open(s.ctx, local.Config{
		Store: l.mortal, Model: s.stage, Tools: s.registry, Policies: local.Policies{Route: s.route},
		Limits:  local.Limits{SlotsPerSession: lanePlaces, SlotsPerProcess: 2 * lanePlaces, DetachedPerSession: lanePlaces, MaxExecutions: -1, NoProgress: -1, DeferAbove: -1},
		Timing:  local.Timing{Grace: 2 * time.Millisecond, Drain: -1},
		Workers: local.Workers{Beat: time.Hour, Lease: 4 * time.Hour},
	})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(s.ctx))
	l.eng, l.stop = eng, stop
	go func() { l.ended <- eng.Run(ctx) }()
	s.life = l
	return nil
}

// die ends the engine. If it is killed, its store is cut off first; if it is stopped, its last
// actions count.
func (s *laneStorm) die(kill bool) {
	l := s.life
	if kill {
		l.mortal.Kill()
	}
	select {
	case err := <-l.ended:
		l.ended <- err
		if err != nil && !kill && s.faults == 0 && !s.expired() {
			s.wrong("the engine ended by itself: %v", err)
		}
	default:
	}
	l.stop()
	close(l.over)
	<-l.ended
}

func (s *laneStorm) expired() bool {
	select {
	case <-s.life.mortal.Died:
		return true
	default:
		return false
	}
}

// run executes the steps, up to four at a time.
func (s *laneStorm) run(steps int) error {
	actions := s.actions()
	for left := steps; left > 0; {
		n := min(1+s.dice.IntN(4), left)
		left -= n
		var group sync.WaitGroup
		for range n {
			dice := rand.New(rand.NewPCG(s.dice.Uint64(), s.dice.Uint64()))
			act := actions[dice.IntN(len(actions))]
			group.Go(func() {
				ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
				defer cancel()
				act(ctx, s.life.eng, dice)
			})
		}
		dies, kill := s.dice.IntN(25) == 0, s.dice.IntN(3) > 0
		point := enginerig.KillPoint{N: int64(s.dice.IntN(2) * s.dice.IntN(400)), After: s.dice.IntN(2) == 0}
		if dies {
			left--
			s.die(kill)
			s.did("death")
		}
		group.Wait()
		if !dies && s.expired() {
			dies = true
			s.die(true)
			s.did("death in a commit")
		}
		if dies {
			if err := s.start(point); err != nil {
				return err
			}
		}
		s.breathe()
	}
	return nil
}

// breathe lets the engine make progress.
func (s *laneStorm) breathe() {
	s.mu.Lock()
	news := s.news
	s.mu.Unlock()
	timer := time.NewTimer(time.Duration(s.dice.IntN(2000)) * time.Microsecond)
	defer timer.Stop()
	select {
	case <-news:
	case <-timer.C:
	}
}

// action is one step. Its errors depend on injected faults and on concurrent actions.
type action func(ctx context.Context, eng *local.Engine, dice *rand.Rand)

// actions are the possible actions of a program, with their weights.
func (s *laneStorm) actions() []action {
	var all []action
	for _, a := range []struct {
		weight int
		do     action
	}{
		{3, s.send}, {6, s.end}, {4, s.detach}, {5, s.decide}, {3, s.reply}, {2, s.answer}, {3, s.cancel}, {1, s.cancelAll},
		{2, s.interrupt}, {1, s.drain}, {2, s.deliver}, {1, s.mail},
	} {
		for range a.weight {
			all = append(all, a.do)
		}
	}
	return all
}

func (s *laneStorm) session(dice *rand.Rand) perdure.SessionID { return s.ids[dice.IntN(len(s.ids))] }

// send sends a message. Some messages have ids, and are sent twice (DL12).
func (s *laneStorm) send(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	m := perdure.Text("go")
	m.Mode = []perdure.Mode{"", "", perdure.ModeQueue, perdure.ModeInterrupt, perdure.ModeReject}[dice.IntN(5)]
	if dice.IntN(6) == 0 {
		m.ID = perdure.MessageID(fmt.Sprintf("message_%032x", 1+dice.IntN(20)))
	}
	_, _ = eng.Send(ctx, s.session(dice), m)
}

// end completes, fails or panics held work.
func (s *laneStorm) end(_ context.Context, _ *local.Engine, dice *rand.Rand) {
	how := []ending{completes, completes, failing, panicking}[dice.IntN(4)]
	if h := s.pick(dice); h != nil {
		h.let(how)
		s.did([]string{"complete", "fail", "panic"}[how])
	}
}

func (s *laneStorm) detach(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	if h := s.pick(dice); h != nil {
		_, err := eng.Calls().Detach(ctx, perdure.CallKey{Session: h.call.Session, Call: h.call.ID}, "user")
		s.counted("detach", err)
	}
}

// counted counts successful actions.
func (s *laneStorm) counted(what string, err error) {
	if err == nil {
		s.did(what)
	}
}

// decide decides an approval, and often a second time, which must not count (AP9).
func (s *laneStorm) decide(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	list, _ := eng.Approvals().List(ctx, engine.ApprovalFilter{Session: s.session(dice), State: []perdure.ApprovalState{"", perdure.ApprovalOpen, perdure.ApprovalOpen}[dice.IntN(3)]})
	if len(list) == 0 {
		return
	}
	a := list[dice.IntN(len(list))]
	v := perdure.Verdict{Approve: dice.IntN(3) > 0, By: "user"}
	if v.Approve && dice.IntN(4) == 0 {
		v.Args = json.RawMessage(fmt.Sprintf(`{"how":%d,"n":1001}`, dice.IntN(3)))
	}
	_, err := eng.Approvals().Decide(ctx, a.ID, v)
	if v.Approve {
		s.counted("approve", err)
	} else {
		s.counted("deny", err)
	}
	if dice.IntN(2) > 0 {
		return
	}
	v.Approve, v.Args = !v.Approve, nil
	if _, again := eng.Approvals().Decide(ctx, a.ID, v); err == nil && again == nil {
		s.wrong("approval %s was decided twice", a.ID)
	}
}

// reply answers a task's question, and often twice (TK12).
func (s *laneStorm) reply(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	tasks, _ := eng.Tasks().List(ctx, s.session(dice))
	for _, t := range tasks {
		if t.InputRequest == nil || t.InputRequest.Kind != "question" {
			continue
		}
		m := perdure.TaskMessage{Text: "this one", InReplyTo: t.InputRequest.ID, By: "user"}
		_, err := eng.Tasks().Send(ctx, t.ID, m)
		s.counted("reply", err)
		if dice.IntN(2) == 0 {
			if _, again := eng.Tasks().Send(ctx, t.ID, m); err == nil && again == nil {
				s.wrong("question %s of task %s was answered twice", t.InputRequest.ID, t.ID)
			}
		}
		return
	}
}

// answer sends a client's result, and often a second, different one (AP11).
func (s *laneStorm) answer(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	id := s.session(dice)
	for _, call := range s.requested(ctx, eng, id) {
		key := perdure.CallKey{Session: id, Call: call}
		err := eng.Calls().Answer(ctx, key, "user", perdure.ToolResult{Result: []byte(`"one"`)})
		s.counted("answer", err)
		if dice.IntN(2) == 0 {
			if again := eng.Calls().Answer(ctx, key, "user", perdure.ToolResult{Result: []byte(`"two"`)}); err == nil && again == nil {
				s.wrong("call %s was answered twice", key)
			}
		}
		return
	}
}

// requested are the calls that wait for a client's result.
func (s *laneStorm) requested(ctx context.Context, eng *local.Engine, id perdure.SessionID) (calls []perdure.CallID) {
	s.dmu.Lock()
	defer s.dmu.Unlock()
	fold := s.folds[id]
	if fold == nil {
		fold = perdure.NewSession(id)
		s.folds[id] = fold
	}
	events, _ := eng.Events(ctx, id, fold.Seq, 0)
	for _, e := range events {
		if err := fold.Apply(e); err != nil {
			s.wrong("session %s, seq %d: %v", id, e.Seq, err)
			return nil
		}
	}
	if fold.Turn == nil {
		return nil
	}
	for _, c := range fold.Turn.Calls {
		if c.Phase == perdure.CallAwaitingClient {
			calls = append(calls, c.ID)
		}
	}
	return calls
}

// task returns a random task of a random session; the zero value if there is none.
func (s *laneStorm) task(ctx context.Context, eng *local.Engine, dice *rand.Rand, live bool) perdure.Task {
	tasks, _ := eng.Tasks().List(ctx, s.session(dice))
	var some []perdure.Task
	for _, t := range tasks {
		if !live || t.State.Live() {
			some = append(some, t)
		}
	}
	if len(some) == 0 {
		return perdure.Task{}
	}
	return some[dice.IntN(len(some))]
}

func (s *laneStorm) cancel(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	if t := s.task(ctx, eng, dice, dice.IntN(4) > 0); t.ID != "" {
		_, err := eng.Tasks().Cancel(ctx, t.ID, "user", "storm")
		s.counted("cancel", err)
	}
}

func (s *laneStorm) cancelAll(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	if dice.IntN(3) == 0 {
		_, err := eng.Tasks().CancelAll(ctx, s.session(dice), "user", "storm")
		s.counted("cancel all", err)
	}
}

func (s *laneStorm) interrupt(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	s.counted("interrupt", eng.Sessions().Interrupt(ctx, s.session(dice), "user", "storm"))
}

// drain drains manual results, each once (DL7).
func (s *laneStorm) drain(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	s.drainOf(ctx, eng, s.session(dice))
}

func (s *laneStorm) drainOf(ctx context.Context, eng *local.Engine, id perdure.SessionID) {
	tasks, _ := eng.Tasks().Drain(ctx, id)
	s.dmu.Lock()
	defer s.dmu.Unlock()
	for _, t := range tasks {
		s.drained[t.ID]++
		s.did("drain")
	}
}

func (s *laneStorm) deliver(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	d := []perdure.Delivery{"", perdure.ToLoop, perdure.Manual}[dice.IntN(3)]
	w := []perdure.Wake{"", perdure.WakeNone, perdure.WakeNotify, perdure.WakeContinue}[dice.IntN(4)]
	if t := s.task(ctx, eng, dice, true); t.ID != "" {
		_, err := eng.Tasks().SetDelivery(ctx, t.ID, d, w)
		s.counted("set delivery", err)
	}
}

func (s *laneStorm) mail(ctx context.Context, eng *local.Engine, dice *rand.Rand) {
	if t := s.task(ctx, eng, dice, true); t.ID != "" {
		_, err := eng.Tasks().Send(ctx, t.ID, perdure.TaskMessage{Text: "by the way", By: "user"})
		s.counted("mail", err)
	}
}

// settle ends all work, answers all questions, and waits until all sessions are idle. Where the
// store had faults, a last engine recovers; otherwise the running one must manage by itself, or the
// next one, at random.
func (s *laneStorm) settle() error {
	s.settleDown()
	s.calmed.Store(true)
	if s.faults > 0 || s.life.doomed || s.dice.IntN(2) == 0 {
		s.die(s.expired() || s.dice.IntN(2) == 0)
		if err := s.start(enginerig.KillPoint{}); err != nil {
			return err
		}
	}
	if err := s.rest(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(s.ctx, laneRest)
	defer cancel()
	for _, id := range s.ids {
		s.drainOf(ctx, s.life.eng, id)
		if _, err := s.life.eng.Send(ctx, id, perdure.Text("bye")); err != nil { // delivers what waited for a turn
			return fmt.Errorf("say bye: %w", err)
		}
	}
	return s.rest()
}

// rest answers questions until all sessions are idle.
func (s *laneStorm) rest() error {
	ctx, cancel := context.WithTimeout(s.ctx, laneRest)
	defer cancel()
	news := make(chan struct{}, 1) // capacity 1: there is something to read
	var group sync.WaitGroup
	eng := s.life.eng
	watching, done := context.WithCancel(ctx)
	for _, id := range s.ids {
		group.Go(func() {
			row, _ := eng.Sessions().Get(watching, id)
			look(news)
			_ = eng.Follow(watching, id, row.LastSeq, func(f engine.Frame) error {
				if f.Event != nil && asks(f.Event.Fact) {
					look(news)
				}
				return nil
			})
		})
	}
	group.Go(func() {
		for {
			select {
			case <-news:
				s.answerAll(watching, eng)
			case <-watching.Done():
				return
			}
		}
	})
	var err error
	for _, id := range s.ids {
		if wait := eng.Sessions().WaitIdle(ctx, id); wait != nil && err == nil {
			err = fmt.Errorf("session %s does not come to rest: %w", id, wait)
		}
	}
	done()
	group.Wait()
	return err
}

// look signals that there is something to read.
func look(news chan struct{}) {
	select {
	case news <- struct{}{}:
	default:
	}
}

// asks reports whether a fact is a question or request.
func asks(f perdure.Fact) bool {
	switch f := f.(type) {
	case perdure.ApprovalRequested, perdure.ToolCallRequested:
		return true
	case perdure.TaskUpdated:
		return f.Task.State == perdure.TaskAwaitingInput
	}
	return false
}

// answerAll answers all open requests.
func (s *laneStorm) answerAll(ctx context.Context, eng *local.Engine) {
	for _, id := range s.ids {
		open, _ := eng.Approvals().List(ctx, engine.ApprovalFilter{Session: id, State: perdure.ApprovalOpen})
		for i, a := range open {
			_, _ = eng.Approvals().Decide(ctx, a.ID, perdure.Verdict{Approve: i%2 == 0, By: "user"})
		}
		tasks, _ := eng.Tasks().List(ctx, id)
		for _, t := range tasks {
			if t.InputRequest != nil && t.InputRequest.Kind == "question" {
				_, _ = eng.Tasks().Send(ctx, t.ID, perdure.TaskMessage{Text: "this one", InReplyTo: t.InputRequest.ID, By: "user"})
			}
		}
		for _, call := range s.requested(ctx, eng, id) {
			_ = eng.Calls().Answer(ctx, perdure.CallKey{Session: id, Call: call}, "user", perdure.ToolResult{Result: []byte("1")})
		}
	}
}

// places checks that every slot is free again: as many runs, and as many detached calls, are
// possible as at the beginning (BG16).
func (s *laneStorm) places() error {
	ctx, cancel := context.WithTimeout(s.ctx, laneRest)
	defer cancel()
	for _, what := range []string{"bg_fill", "fill"} {
		for _, id := range s.ids {
			if _, err := s.life.eng.Send(ctx, id, perdure.Text("fill "+what)); err != nil {
				return fmt.Errorf("fill the slots: %w", err)
			}
		}
		held, err := s.filled(ctx, what, len(s.ids)*lanePlaces, func(h *heldWork) error {
			if what == "bg_fill" {
				return nil
			}
			key := perdure.CallKey{Session: h.call.Session, Call: h.call.ID}
			_, err := s.life.eng.Calls().Detach(ctx, key, "user")
			return err
		})
		if err != nil {
			return fmt.Errorf("slots of %s: %w", what, err)
		}
		for _, h := range held {
			h.let(completes)
		}
		if err := s.rest(); err != nil {
			return fmt.Errorf("after filling the slots: %w", err)
		}
	}
	return nil
}

// judge checks the journals, the rows and the outside effects at the end. rested: nothing may be
// open.
func (s *laneStorm) judge(rested bool) {
	record := chaos.Record{}
	for _, id := range s.ids {
		var journal chaos.Journal
		err := s.st.View(s.ctx, func(r store.Reader) error {
			events, err := r.Journal().Events(id, 0, 0)
			journal = chaos.Journal{Session: id, Events: events}
			if err != nil || !rested {
				return err
			}
			return s.judgeRows(r, journal)
		})
		if err != nil {
			s.wrong("session %s: %v", id, err)
		}
		record.Journals = append(record.Journals, journal)
		s.judgeEvents(journal)
	}
	s.mu.Lock()
	record.Ledger = s.ledger
	s.mu.Unlock()
	if !rested {
		return
	}
	for _, v := range chaos.Check(record) {
		s.wrong("%s %s: %s", v.Invariant, v.Session, v.Text)
	}
}

// judgeEvents wants each event and each message with an id once.
func (s *laneStorm) judgeEvents(j chaos.Journal) {
	events, messages := map[perdure.EventID]bool{}, map[string]bool{}
	for _, e := range j.Events {
		if events[e.ID] {
			s.wrong("event %s stands there twice", e.ID)
		}
		events[e.ID] = true
		if f, ok := e.Fact.(perdure.MessageReceived); ok && f.Key != "" {
			if messages[f.Key] {
				s.wrong("message %s was received twice", f.Key)
			}
			messages[f.Key] = true
		}
	}
}

// judgeRows compares rows with the fold (PR2), and wants every result delivered: in the transcript,
// read, or drained once.
func (s *laneStorm) judgeRows(r store.Reader, j chaos.Journal) error {
	fold := perdure.NewSession(j.Session)
	for _, e := range j.Events {
		if err := fold.Apply(e); err != nil {
			return err
		}
	}
	tasks, err := r.Tasks().List(store.TaskFilter{Session: j.Session})
	if err != nil {
		return err
	}
	if len(tasks) != len(fold.Tasks) {
		s.wrong("session %s has %d tasks, and %d in its journal", j.Session, len(tasks), len(fold.Tasks))
	}
	for _, t := range tasks {
		f := fold.Tasks[t.ID]
		if t.State != f.State || t.Delivered != f.Delivered || t.Attempt != f.Attempt || t.Summary != f.Summary || t.Delivery != f.Delivery {
			s.wrong("task row %+v, journal %+v", t, f)
		}
		s.dmu.Lock()
		n := s.drained[t.ID]
		s.dmu.Unlock()
		if n > 1 || n > 0 && t.Delivered != perdure.DeliveredDrained || t.Delivered == perdure.NotDelivered {
			s.wrong("task %s, %s, %s: delivered %q, handed over %d times", t.ID, t.State, t.Delivery, t.Delivered, n)
		}
	}
	calls, err := r.Calls().List(store.CallFilter{Session: j.Session})
	for _, c := range calls {
		if c.State == perdure.CallRunning {
			s.wrong("call %s of %s still runs in the ledger: %s", c.Key, c.Tool, story(j, c))
		}
	}
	return err
}

// story is the journal's record of a call and its task.
func story(j chaos.Journal, c perdure.Call) string {
	text := ""
	for _, e := range j.Events {
		if e.Call != c.Key.Call && (c.Task == "" || e.Task != c.Task) {
			continue
		}
		line, err := perdure.EncodeEvent(e)
		text += fmt.Sprintf("\n%s %v", line, err)
	}
	return text
}

// TestLaneStorm checks the invariants of lanes (DL14, PR1, PR2, PR4) under random interleavings:
// one terminal state, one tool result for each call at every model call, each result delivered
// once, slots back to zero. make soak runs more steps.
func TestLaneStorm(t *testing.T) {
	t.Parallel()
	playLaneStorm(t, laneSteps)
}

// playLaneStorm runs programs with the given number of steps in total. LANES_SEED is the seed of
// the first program; the others follow it.
func playLaneStorm(t *testing.T, steps uint64) {
	t.Helper()
	first := uint64(soak.Count(t, "LANES_SEED", 1, 1))
	programs := (steps + laneProgram - 1) / laneProgram
	t.Logf("%d steps in %d programs, seeds %d to %d", steps, programs, first, first+programs-1)
	var next atomic.Uint64
	var group sync.WaitGroup
	var mu sync.Mutex
	count := map[string]int{}
	for range laneAtOnce {
		group.Go(func() {
			for n := next.Add(1) - 1; n < programs; n = next.Add(1) - 1 {
				seed := first + n
				s, err := playLanes(t.Context(), seed, int(min(laneProgram, steps-n*laneProgram)))
				if err != nil {
					s.wrong("%v", err)
				}
				for _, text := range s.trouble {
					t.Errorf("seed %d: %s\nreplay: LANES_SEED=%d LANES_STEPS=%d go test -race -tags soak -run '^TestLaneStormSoak$' ./engine/local", seed, text, seed, laneProgram)
				}
				mu.Lock()
				for what, n := range s.count {
					count[what] += n
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	t.Logf("%v", count)
}

// A run asked, its process died, and its question was answered while no slot was free: a cancel
// takes it over, so that its row in the ledger ends too, and a possible earlier effect is not
// denied (RC13 row 2, RC16).
func TestCancelOfRunLeftWhileAsking(t *testing.T) {
	t.Parallel()
	for name, detail := range map[string]string{"ask": "", "ask_once": "effects before the cancel are unknown"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, enginetest.Setup{PerSession: 1, Agent: perdure.Agent{SerialCalls: true}, Script: `
rules:
  - when: {not_called: spawn_background}
    calls: [{name: spawn_background, args: {tool: ` + name + `, args: {}}}, {name: spawn_background, args: {tool: bg_hold, args: {}}}]
steps: [{text: x}, {text: on, repeat: true}]`})
			r.say("go")
			asked := r.until(func(f perdure.Fact) bool {
				u, ok := f.(perdure.TaskUpdated)
				return ok && u.Task.InputRequest != nil
			})
			r.Entered(t, "bg_hold", 1)
			r.Kill(t)
			r.eng = r.Start(t)
			r.Entered(t, "bg_hold", 2) // it has the only slot
			task := asked.(perdure.TaskUpdated).Task
			if err := r.answer(asked); err != nil {
				t.Fatal(err)
			}
			waiting, err := r.eng.Tasks().Get(r.ctx, task.ID)
			if err != nil || waiting.State != perdure.TaskQueued {
				t.Fatalf("answered, it is %s, %v", waiting.State, err)
			}
			if _, err := r.eng.Tasks().Cancel(r.ctx, task.ID, "user", ""); err != nil {
				t.Fatal(err)
			}
			gone, err := r.eng.Tasks().Wait(r.ctx, task.ID)
			r.Release("bg_hold")
			r.rest()

			if err != nil || gone.State != perdure.TaskCanceled || detail != "" && gone.StateDetail != detail {
				t.Errorf("got %s, %q, %v; want canceled, %q", gone.State, gone.StateDetail, err, detail)
			}
			calls, err := r.eng.Calls().List(r.ctx, r.id)
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range calls {
				if c.State == perdure.CallRunning {
					t.Errorf("call %s of %s still runs in the ledger; journal: %s", c.Key, c.Tool, r.story())
				}
			}
		})
	}
}
