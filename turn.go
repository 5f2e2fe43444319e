package perdure

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// TurnPhase is where a turn stands between two events.
type TurnPhase string

// The phases of a turn: ready → reasoning → reasoned → ready, or reasoned → acting → ready.
const (
	PhaseReady     TurnPhase = "ready"     // the model is to be asked
	PhaseReasoning TurnPhase = "reasoning" // it is being asked
	PhaseReasoned  TurnPhase = "reasoned"  // it answered, or failed to
	PhaseActing    TurnPhase = "acting"    // its calls run
)

// Turn goes from an input to rest: reason, then act and reason again as often as the model asks.
type Turn struct {
	ID        TurnID              `json:"id"`
	Cause     TurnCause           `json:"cause"`
	Input     MessageID           `json:"input,omitempty"`
	Phase     TurnPhase           `json:"phase"`
	Iteration int                 `json:"iteration"` // reason steps begun
	Exec      ExecID              `json:"exec,omitempty"`
	Message   MessageID           `json:"message,omitempty"` // of the answer that is open or came last
	Attempt   int                 `json:"attempt"`           // of the model call
	NotBefore time.Time           `json:"not_before,omitzero"`
	Open      bool                `json:"open"` // output.message.started without its end
	Last      ReasonCompleted     `json:"last"`
	Calls     []TurnCall          `json:"calls,omitempty"` // of the act step, in the model's order
	Interrupt *InterruptRequested `json:"interrupt,omitempty"`
	Violation bool                `json:"violation,omitempty"` // LG14
	Empties   int                 `json:"empties,omitempty"`   // answers without text and calls, of this reason step (TN22)
	CutOff    int                 `json:"cut_off,omitempty"`   // answers in a row that broke off with text (TN20)
	Shrunk    bool                `json:"shrunk,omitempty"`    // the context was compacted since it was too large (TN23)
	Model     string              `json:"model,omitempty"`     // asked for; empty: the engine's default (N10)
	Trace     string              `json:"trace,omitempty"`     // the traceparent of the message that began it; empty: it came without one
	StartedAt time.Time           `json:"started_at"`
	ActAt     time.Time           `json:"act_at,omitzero"`
	Loop      Loop                `json:"loop,omitzero"` // what shows that the turn does not get on (TN24)

	Usage         Usage     `json:"usage"`
	Final         MessageID `json:"final,omitempty"`
	FinalText     string    `json:"final_text,omitempty"`
	ToolCallCount int       `json:"tool_call_count"`
	LLMCallCount  int       `json:"llm_call_count"`
}

// CallPhase is where a call of an act step stands.
type CallPhase string

// The phases of a call.
const (
	CallPlanned    CallPhase = "planned"    // asked for; nothing is claimed
	CallAsking     CallPhase = "asking"     // a person is asked; nothing is claimed (AP7)
	CallReplanning CallPhase = "replanning" // a person replaced its arguments: it is judged anew (AP5)
	CallRequested  CallPhase = "requested"  // the client is to answer it (AP11)
	CallInWork     CallPhase = "running"    // claimed and started
	CallDone       CallPhase = "done"       // has its one result or placeholder
)

// TurnCall is a call of an act step.
type TurnCall struct {
	PlannedCall
	Args      json.RawMessage `json:"args"`
	Phase     CallPhase       `json:"phase"`
	Result    *ToolResult     `json:"result,omitempty"`
	Approval  ApprovalID      `json:"approval_id,omitempty"` // the last one that was asked for
	Granted   []Permission    `json:"granted,omitempty"`     // what a person allowed who replaced its arguments
	StartedAt time.Time       `json:"started_at,omitzero"`   // or asked for from the client
}

// call returns the call of the step with this id, or nil.
func (t *Turn) call(id CallID) *TurnCall {
	for i := range t.Calls {
		if t.Calls[i].ID == id {
			return &t.Calls[i]
		}
	}
	return nil
}

// InPhase reports whether a call of the step is in a phase.
func (t *Turn) InPhase(id CallID, phase CallPhase) bool {
	c := t.call(id)
	return c != nil && c.Phase == phase
}

// Repeats is the call or task of unknown outcome that a call of the running turn repeats as a new effect; empty: none.
func (s *Session) Repeats(id CallID) string {
	if s.Turn == nil {
		return ""
	}
	c := s.Turn.call(id)
	if c == nil {
		return ""
	}
	return c.Repeats
}

// InWork reports whether a call of the step is claimed and has no result yet.
func (t *Turn) InWork(id CallID) bool { return t.InPhase(id, CallInWork) }

// ReadBefore reports whether a call of the step began before the task was resolved: what it read of the task's
// end may be the unknown one, so the new end still has to come home (DL2).
func (t *Turn) ReadBefore(id CallID, task Task) bool {
	c := t.call(id)
	return c != nil && !task.ResolvedAt.IsZero() && !task.ResolvedAt.Before(c.StartedAt)
}

// ready reports whether nothing but a place keeps the call from being claimed.
func (c TurnCall) ready() bool {
	return c.Phase == CallPlanned && len(c.Permissions) == 0 && c.Refusal == nil && !c.ClientSide
}

// Allowed reports whether a person allowed a permission when they replaced the call's arguments (AP5).
func (c TurnCall) Allowed(p Permission) bool {
	return p.In(c.Granted)
}

// lane is the lane that the call starts in.
func (c TurnCall) lane() Lane {
	if c.Lane == Background {
		return Background
	}
	return Foreground
}

// startable returns the planned calls that may start now: at most limit at once, one of a concurrency
// class, in the model's order; with serial strictly one after another (TN11).
func startable(calls []TurnCall, limit int, serial bool) []TurnCall {
	running := 0
	for _, c := range calls {
		if c.Phase == CallInWork {
			running++
		}
	}
	if serial {
		limit = 1
	}
	var start []TurnCall
	busy := map[string]bool{}
	for _, c := range calls {
		if c.Phase == CallDone {
			continue
		}
		free := c.Concurrency == "" || !busy[c.Concurrency]
		if c.ready() && free && running < limit {
			start = append(start, c)
			running++
		}
		busy[c.Concurrency] = true
	}
	return start
}

// The codes of model failures that the rules themselves look at (4.6).
const (
	CodeEmptyAnswer = "empty_answer"           // no text and no calls: asked once more (TN22)
	CodeInterrupted = "interrupted"            // the model call was stopped with its turn
	CodeTooLarge    = "request_too_large"      // the context is compacted once, and asked again (TN23)
	CodeIdle        = "idle_timeout"           // nothing happened for too long (TN15)
	CodeBrokenOff   = "broken_off"             // the runtime ended while the model answered (TN20)
	CodeDeterminism = "determinism_violation"  // LG14
	CodeDependency  = "dependency_unavailable" // an agent or harness that the session is made of is archived or deleted (N11)
	CodeProcessing  = "processing_error"       // anything else of ours
)

// The bounds of a retry's delay (TN21).
const (
	firstRetryDelay = time.Second
	maxRetryDelay   = 60 * time.Second
	maxRetryAfter   = 10 * time.Minute
)

// RetryDelay is how long to wait after the nth failed attempt, from 1: one second doubling to a minute,
// ±10 % by seed, or what the provider asks for, up to ten minutes (TN21). The same arguments give the same
// delay, so that a restart keeps it.
func RetryDelay(attempt int, asked time.Duration, seed string) time.Duration {
	if asked > 0 {
		return min(asked, maxRetryAfter)
	}
	delay := maxRetryDelay
	if attempt < 7 {
		delay = min(firstRetryDelay<<max(attempt-1, 0), maxRetryDelay)
	}
	h := fnv.New32a()
	h.Write([]byte(seed))
	jitter := int64(h.Sum32()%201) - 100 // thousandths of the delay
	return delay + delay/1000*time.Duration(jitter)
}

// Loop is what of a turn's calls shows that it does not get on (TN24). A sign is a call with its result, without times
// and ids.
type Loop struct {
	Last  string   `json:"last,omitempty"`  // sign of the call that ended last
	Count int      `json:"count,omitempty"` // how often it came in a row
	Reads []string `json:"reads,omitempty"` // signs of the last reads of files, oldest first; never changed in place
	Told  string   `json:"told,omitempty"`  // sign that turn.loop_detected was said of
	Found Looped   `json:"found,omitzero"`  // in the step that ended last
}

// Looped is a call that came too often with the same result.
type Looped struct {
	Sign        string `json:"sign,omitempty"`
	Name        string `json:"name,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	Count       int    `json:"count,omitempty"`
}

const (
	loopAt    = 3  // calls that are a loop (TN24)
	keptReads = 64 // of Loop.Reads
	readTool  = "read_file"
)

// volatile is what of a result says nothing about progress: moments, ids, and what is measured.
var volatile = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?` +
		`|\b[a-z]+_[0-9a-f]{32}\b|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b` +
		`|"(\w+_)?(ms|us|ns|seconds|duration|elapsed|time|timestamp|at)":\s*-?[0-9.]+`)
})

// note looks at the calls of a step that is over, in the model's order. Tools that only wait count for nothing: they
// are meant to be asked again.
func (l *Loop) note(calls []TurnCall) {
	l.Found = Looped{}
	for _, c := range calls {
		if c.Result == nil || slices.Contains([]string{"wait_task", "get_task", "check_background_tool"}, c.Name) {
			continue
		}
		sign := c.sign()
		if sign != l.Last {
			l.Last, l.Count = sign, 0
		}
		l.Count++
		times := l.Count
		if c.Name == readTool { // whatever was done in between, the file has not changed
			times = max(times, 1+count(l.Reads, sign))
			l.Reads = append(slices.Clone(l.Reads[max(len(l.Reads)-keptReads+1, 0):]), sign)
		}
		if times >= loopAt && times >= l.Found.Count {
			l.Found = Looped{Sign: sign, Name: c.Name, Fingerprint: c.Fingerprint, Count: times}
		}
	}
}

func count(signs []string, sign string) int {
	n := 0
	for _, s := range signs {
		if s == sign {
			n++
		}
	}
	return n
}

// sign is the call with its result, without times and ids.
func (c TurnCall) sign() string {
	h := sha256.New()
	r := c.Result
	fmt.Fprintf(h, "%q %q", orString(c.Fingerprint, c.Name+" "+string(c.Args)), r.ErrorKind)
	h.Write(volatile().ReplaceAll(r.Result, nil))
	h.Write(volatile().ReplaceAll([]byte(r.Error), nil))
	for _, image := range r.Images {
		fmt.Fprintf(h, "%q", image.Base64)
	}
	return hex.EncodeToString(h.Sum(nil)[:12])
}

// looping says once of a loop that it is one, and seals the turn where its agent wants that (TN24).
func (s *Session) looping(m Moment) []Event {
	found := s.Turn.Loop.Found
	if found.Count < loopAt {
		return nil
	}
	seals := s.Agent.SealAfter > 0 && found.Count >= s.Agent.SealAfter
	var events []Event
	if s.Turn.Loop.Told != found.Sign {
		told := LoopDetected{Name: found.Name, Fingerprint: found.Fingerprint, Count: found.Count}
		if !seals {
			id := DeriveID[MessageID](m.Secret, m.Now, string(s.Turn.ID), "loop", found.Sign, fmt.Sprint(s.Seq))
			text := fmt.Sprintf("You called %s %d times with the same arguments and got the same result each time. Calling it again will not "+
				"change that: use what you have, try something else, or say what keeps you from going on.", strings.ToValidUTF8(found.Name, "?"), found.Count)
			told.Message = Message{ID: id, Role: RoleNotification, Parts: []Part{{Type: PartText, Text: text}}, At: m.Now}
		}
		events = append(events, s.event(m, told))
	}
	if seals {
		why := fmt.Sprintf("%s was called %d times with the same result", found.Name, found.Count)
		events = append(events, s.event(m, InterruptRequested{By: "runtime", Reason: why, Seal: "no_progress"}))
	}
	return events
}
