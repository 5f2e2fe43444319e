package perdure

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Compaction says what of the transcript the model is not shown any more (TN23). The transcript itself stays whole. The
// zero value shows everything.
type Compaction struct {
	Masked  int     `json:"masked,omitempty"`  // large tool results before this message are masked
	Drop    int     `json:"drop,omitempty"`    // the messages before this one are left out, all but the first
	Summary string  `json:"summary,omitempty"` // what the model made of those (TN23)
	Notice  Message `json:"notice,omitzero"`   // stands in their place: what was left out, and the tasks that are open (DL13)
}

// ContextCompacted narrows what the model is shown, so that every replay shows it the same.
type ContextCompacted struct {
	Strategy   string     `json:"strategy"` // mask, summarise, drop
	Before     int        `json:"before"`   // tokens, estimated
	After      int        `json:"after"`
	Compaction Compaction `json:"compaction"`
}

const (
	bytesPerToken = 4   // of the estimate
	maskedOver    = 512 // bytes; a smaller result is not worth masking
	keptSteps     = 2   // the last steps, which are never masked
)

// Context is what the model is shown: the transcript, without what was compacted away. The caller must not change it.
func (s *Session) Context() []Message { return s.Compacted.view(s.Transcript) }

func (c Compaction) view(transcript []Message) []Message {
	if c.Masked == 0 && c.Drop == 0 {
		return transcript
	}
	var shown []Message
	for i, m := range transcript {
		switch {
		case i > 0 && i < c.Drop:
			continue
		case i < c.Masked:
			m = masked(m)
		}
		if i == max(c.Drop, 1) && len(c.Notice.Parts) > 0 {
			shown = append(shown, c.Notice)
		}
		shown = append(shown, m)
	}
	return shown
}

// masked is a message without the bodies of large tool results.
func masked(m Message) Message {
	if m.Role != RoleToolResult {
		return m
	}
	m.Parts = slices.Clone(m.Parts)
	for i, p := range m.Parts {
		if p.Result == nil || len(p.Result.Result) <= maskedOver && len(p.Result.Images) == 0 {
			continue
		}
		short := *p.Result
		short.Result = json.RawMessage(fmt.Sprintf(`{"masked":true,"bytes":%d}`, len(p.Result.Result)))
		short.Images, short.RawOutput = nil, nil
		m.Parts[i].Result = &short
	}
	return m
}

// EstimateTokens is how many tokens messages are reckoned with, where no provider has counted them.
func EstimateTokens(messages []Message) int { return tokens(messages) }

// tokens estimates what messages cost.
func tokens(messages []Message) int {
	n := 0
	for _, m := range messages {
		for _, p := range m.Parts {
			n += len(p.Text) + 16
			if p.Call != nil {
				n += len(p.Call.Arguments) + len(p.Call.Name)
			}
			if p.Result != nil {
				n += len(p.Result.Result)
				for _, image := range p.Result.Images {
					n += len(image.Base64)
				}
			}
			if p.Image != nil {
				n += len(p.Image.Base64)
			}
		}
	}
	return n / bytesPerToken
}

// compact narrows the context to at most so many tokens: large results of old steps are masked, and if that is not enough
// the oldest messages go, never a call without its result (TN23). Not ok: nothing more can be left out.
func (s *Session) compact(m Moment, most int) (fact ContextCompacted, ok bool) {
	before := tokens(s.Context())
	starts := s.boundaries()
	if len(starts) == 0 {
		return fact, false
	}
	last := starts[max(len(starts)-keptSteps, 0)]
	tried := s.Compacted
	tried.Masked = max(last, tried.Masked)
	tried.Notice = s.leftOut(m, tried.Drop) // what starts a run answers at length, and may be masked
	fact = ContextCompacted{Strategy: "mask", Before: before, Compaction: tried}
	if fact.After = tokens(tried.view(s.Transcript)); fact.After <= most {
		return fact, fact.After < before
	}
	fact.Strategy = "drop"
	starts = slices.DeleteFunc(starts, func(start int) bool { return start <= tried.Drop })
	if len(starts) == 0 {
		return fact, fact.After < before
	}
	drop := func(i int) int { // what is left after a start; the later, the less
		tried.Drop = starts[i]
		tried.Notice = s.leftOut(m, starts[i])
		fact.Compaction, fact.After = tried, tokens(tried.view(s.Transcript))
		return fact.After
	}
	first, _ := slices.BinarySearchFunc(indexes(len(starts)), most, func(i, most int) int {
		if drop(i) > most {
			return -1
		}
		return 1
	})
	drop(min(first, len(starts)-1))
	return fact, fact.After < before
}

// SumUp asks the model to sum up what is about to be left out, and answers with context.compacted: with the summary,
// or, where there is none to be had, as it is (TN23).
type SumUp struct {
	Turn  TurnID
	Fact  ContextCompacted // what is left out when there is no summary
	Again *ReasonStarted   // the model is asked again with it; nil: the step has not begun
}

func (SumUp) command() {}

// MaxSummaryBytes bounds a summary.
const MaxSummaryBytes = 4000

const summaryMark = "Summary of what is left out:\n"

// LeftOut is what the model is shown now and will not be any more, among it an earlier notice. The first message stays.
func (s *Session) LeftOut(c SumUp) []Message {
	old := s.Compacted
	return old.view(s.Transcript[:min(c.Fact.Compaction.Drop, len(s.Transcript))])
}

// Events are what a summary comes to; none is a drop without it.
func (c SumUp) Events(s *Session, summary string) []Event {
	fact := c.Fact
	if summary = strings.TrimSpace(cut(strings.ToValidUTF8(summary, ""), MaxSummaryBytes/4)); summary != "" {
		notice := fact.Compaction.Notice
		text := notice.Text()
		if old := s.Compacted.Summary; old != "" { // it is part of what was summed up
			text = strings.Replace(text, "\n"+summaryMark+old, "", 1)
		}
		first, rest, _ := strings.Cut(text, "\n")
		notice.Parts = []Part{{Type: PartText, Text: strings.TrimSuffix(first+"\n"+summaryMark+summary+"\n"+rest, "\n")}}
		fact.Strategy, fact.Compaction.Summary, fact.Compaction.Notice = "summarise", summary, notice
		fact.After = tokens(fact.Compaction.view(s.Transcript))
	}
	events := []Event{{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: fact}}
	if c.Again != nil {
		events = append(events, Event{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: *c.Again})
	}
	return events
}

// tooLong says what the context needs before the model is asked: nothing, where it fits or nothing more can be left out.
func (s *Session) tooLong(m Moment) (fact ContextCompacted, ok bool) {
	most := s.Agent.MaxContextTokens
	if most <= 0 || tokens(s.Context()) <= most {
		return fact, false
	}
	return s.compact(m, most)
}

// sumsUp reports whether what is left out is summed up first.
func (s *Session) sumsUp(fact ContextCompacted) bool {
	return s.Agent.Summarise && fact.Compaction.Drop > max(s.Compacted.Drop, 1)
}

// RepairTranscript looks up the results of calls that have none, and answers with transcript.repaired for each breach of
// the law that every call has exactly one result, after it and before the next answer (TN16).
type RepairTranscript struct {
	Turn     TurnID
	Breaches []Breach
}

func (RepairTranscript) command() {}

// Breach is a call without a result in its place, or a result that is one too many or of no call.
type Breach struct {
	Call    ToolCall    // Dropped: only its id is known
	Dropped bool        // the result goes
	Result  *ToolResult // of the call, found at another place; nil: the ledger is asked
	message int         // where in the transcript: the call's, or the result's
	part    int
}

// Breaches finds what is broken after the sound part of the transcript.
func (s *Session) Breaches() []Breach {
	var found []Breach
	open := map[CallID]int{} // calls that wait for a result, by their index in asked
	var asked []Breach
	settle := func() {
		for _, a := range asked {
			if _, waits := open[a.Call.ID]; waits {
				a.Result = s.strayResult(a.Call.ID, a.message)
				found = append(found, a)
			}
		}
		open, asked = map[CallID]int{}, nil
	}
	for i := min(s.Sound, len(s.Transcript)); i < len(s.Transcript); i++ {
		m := s.Transcript[i]
		if m.Role == RoleAgent {
			settle()
		}
		for j, p := range m.Parts {
			switch {
			case p.Type == PartToolCall && p.Call != nil:
				open[p.Call.ID] = len(asked)
				asked = append(asked, Breach{Call: *p.Call, message: i, part: j})
			case p.Type == PartToolResult && p.Result != nil:
				if _, waits := open[p.Result.CallID]; !waits {
					found = append(found, Breach{Call: ToolCall{ID: p.Result.CallID}, Dropped: true, message: i, part: j})
				}
				delete(open, p.Result.CallID)
			}
		}
	}
	settle()
	return found
}

// Breaks reports whether the breach that a repair is of is still there.
func (s *Session) Breaks(f TranscriptRepaired) bool {
	return slices.ContainsFunc(s.Breaches(), f.mends)
}

func (f TranscriptRepaired) mends(b Breach) bool {
	return b.Call.ID == f.CallID && b.Dropped == (f.Result == nil)
}

// strayResult is a result of a call that stands too late.
func (s *Session) strayResult(id CallID, after int) *ToolResult {
	for _, m := range s.Transcript[after:] {
		for _, p := range m.Parts {
			if p.Result != nil && p.Result.CallID == id {
				return p.Result
			}
		}
	}
	return nil
}

// repair mends the first breach that a repair is of. A fact of an earlier version, which tells no result, mends nothing.
func (s *Session) repair(f TranscriptRepaired) error {
	if f.Result == nil && f.Action != RepairDropped {
		return nil
	}
	broken := s.Breaches()
	i := slices.IndexFunc(broken, f.mends)
	if i < 0 {
		return nil // mended before
	}
	b := broken[i]
	s.Transcript = slices.Clone(s.Transcript)
	if b.Dropped {
		m := s.Transcript[b.message]
		m.Parts = slices.Delete(slices.Clone(m.Parts), b.part, b.part+1)
		s.Transcript[b.message] = m
		if len(m.Parts) == 0 {
			s.Transcript = slices.Delete(s.Transcript, b.message, b.message+1)
			s.Compacted.moved(b.message, -1)
		}
		return nil
	}
	if f.Result.CallID != f.CallID {
		return fmt.Errorf("%w: the result of call %s is of call %s", Conflict, f.CallID, f.Result.CallID)
	}
	calls := s.Transcript[b.message].Calls()
	before := func(id CallID) bool { // in the model's order
		at := func(id CallID) int { return slices.IndexFunc(calls, func(c ToolCall) bool { return c.ID == id }) }
		return at(id) >= 0 && at(id) < at(f.CallID)
	}
	at := b.message + 1
	for ; at < len(s.Transcript); at++ {
		m := s.Transcript[at]
		if m.Role != RoleToolResult || len(m.Parts) == 0 || m.Parts[0].Result == nil || !before(m.Parts[0].Result.CallID) {
			break
		}
	}
	s.Transcript = slices.Insert(s.Transcript, at, Message{Role: RoleToolResult, Parts: []Part{{Type: PartToolResult, Result: f.Result, Untrusted: f.Result.Untrusted}}})
	s.Compacted.moved(at, 1)
	return nil
}

// moved keeps the borders where they were when a message comes or goes before them.
func (c *Compaction) moved(at, by int) {
	if at < c.Masked {
		c.Masked += by
	}
	if at < c.Drop {
		c.Drop += by
	}
}

// indexes are 0 to n-1.
func indexes(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// boundaries are the messages before which the transcript may be cut: no result stands there whose call would be gone, and
// the last step stays.
func (s *Session) boundaries() []int {
	var starts []int
	for i, m := range s.Transcript {
		if i > 1 && m.Role != RoleToolResult {
			starts = append(starts, i)
		}
	}
	return starts
}

// leftOut is what stands in the place of messages: how many they were, and the tasks that are open (DL13). Without either
// it has no parts.
func (s *Session) leftOut(m Moment, before int) Message {
	var lines []string
	if before > 1 {
		lines = append(lines, fmt.Sprintf("%d earlier messages are left out here to save room.", before-1))
	}
	if summary := s.Compacted.Summary; summary != "" {
		lines = append(lines, summaryMark+summary)
	}
	var tasks []Task
	for _, t := range s.Tasks {
		tasks = append(tasks, t)
	}
	slices.SortFunc(tasks, Task.compareAge)
	if open := OpenTasksText(tasks); open != "" {
		lines = append(lines, open)
	}
	if len(lines) == 0 {
		return Message{}
	}
	id := DeriveID[MessageID](m.Secret, m.Now, string(s.ID), "compacted", fmt.Sprint(before), fmt.Sprint(s.Seq))
	return Message{ID: id, Role: RoleNotification, Parts: []Part{{Type: PartText, Text: strings.Join(lines, "\n")}}, At: m.Now}
}

// maxOpenLines is how many lines OpenTasksText writes at most.
const maxOpenLines = 20

// OpenTasksText writes down the background work of a session that is not over for the model: what lives, then what has
// ended and was not told yet. It is put back into a conversation that was compacted, so that the ids are not lost
// (DL13). It tells no times, so that the same tasks are the same text and a prompt's cache stays good.
//
// tasks stand in the order of their creation, and may hold others. Without open tasks it is empty. What exceeds 20
// lines is counted; list_tasks shows it.
func OpenTasksText(tasks []Task) string {
	var live, over []string
	for _, t := range tasks {
		switch {
		case t.Lane == Foreground: // its call stands in the conversation and waits for its result
		case t.State.Live():
			live = append(live, t.openLine())
		case t.State.Terminal() && t.undelivered():
			over = append(over, t.openLine())
		}
	}
	lines := append(live, over...)
	if len(lines) == 0 {
		return ""
	}
	if most := maxOpenLines - 1; len(lines) > most {
		left := len(lines) - (most - 1)
		lines = append(lines[:most-1:most-1], fmt.Sprintf("- and %d more: call list_tasks", left))
	}
	return "Open background tasks:\n" + strings.Join(lines, "\n")
}

// openLine is one task of the block.
func (t Task) openLine() string {
	line := "- " + string(t.ID)
	if t.Run != "" {
		line += " (" + string(t.Run) + ")"
	}
	line += fmt.Sprintf(" %s: %s", t.Tool, t.State)
	switch {
	case t.InputRequest != nil:
		line += " for " + string(t.InputRequest.ID)
	case t.State.Terminal():
		line += ", not read yet"
	}
	return line
}
