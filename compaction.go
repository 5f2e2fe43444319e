package perdure

import (
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strings"

	"github.com/perdure/perdure/internal/shorten"
)

// Compaction says which parts of the transcript the model no longer sees. The transcript itself is
// not changed. The zero value hides nothing.
type Compaction struct {
	Masked  int    `json:"masked,omitempty"`  // large tool results before this message index are masked
	Drop    int    `json:"drop,omitempty"`    // messages before this index are left out, except the first one
	Summary string `json:"summary,omitempty"` // what the model wrote about the messages that are left out
	// takes their place: how many they are, the summary, and the open tasks
	Notification Message `json:"notice,omitzero"`
}

// ContextCompacted narrows the context. It is journaled so that every replay shows the model the
// same.
type ContextCompacted struct {
	Strategy   string     `json:"strategy"` // mask, summarise, drop
	Before     int        `json:"before"`   // estimated tokens
	After      int        `json:"after"`    // estimated tokens
	Compaction Compaction `json:"compaction"`
}

const (
	bytesPerToken  = 4   // for the estimate
	maskAboveBytes = 512 // a smaller result is not worth masking
	unmaskedSteps  = 2   // the last steps keep their results
)

// Context is what the model sees: the transcript without the compacted parts. The caller must not
// change it.
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
		if i == max(c.Drop, 1) && len(c.Notification.Parts) > 0 {
			shown = append(shown, c.Notification)
		}
		shown = append(shown, m)
	}
	return shown
}

// masked returns the message without the bodies of large tool results.
func masked(m Message) Message {
	if m.Role != RoleToolResult {
		return m
	}
	m.Parts = slices.Clone(m.Parts)
	for i, p := range m.Parts {
		if p.Result == nil || len(p.Result.Result) <= maskAboveBytes && len(p.Result.Images) == 0 {
			continue
		}
		short := *p.Result
		short.Result = json.RawMessage(fmt.Sprintf(`{"masked":true,"bytes":%d}`, len(p.Result.Result)))
		short.Images, short.RawOutput = nil, nil
		m.Parts[i].Result = &short
	}
	return m
}

// EstimateTokens estimates the tokens of messages where no provider has counted them.
func EstimateTokens(messages []Message) int { return tokens(messages) }

// tokens estimates the tokens of messages from their size.
func tokens(messages []Message) int {
	n := 0
	for _, m := range messages {
		n += m.stateSize()
		for _, p := range m.Parts {
			n += len(p.Text) + 16
			if p.Call != nil {
				n += len(p.Call.Arguments) + len(p.Call.Name) + fieldsSize(p.Call.ProviderFields)
			}
			if p.Result != nil {
				n += len(p.Result.Result)
				for _, image := range p.Result.Images {
					n += image.contextBytes()
				}
			}
			if p.Image != nil {
				n += p.Image.contextBytes()
			}
			if p.ImageFile != nil {
				n += imageBytes
			}
		}
	}
	return n / bytesPerToken
}

// stateSize returns the bytes of the state that goes back to the provider with the message.
func (m Message) stateSize() int {
	if m.State == nil {
		return 0
	}
	size := fieldsSize(m.State.Fields)
	if len(m.State.ThinkingAs) > 0 || m.Signature != "" {
		size += len(m.Thinking) + len(m.Signature)
	}
	return size
}

func fieldsSize(fields map[string]json.RawMessage) (size int) {
	for name, value := range fields {
		size += len(name) + len(value)
	}
	return size
}

// compact narrows the context to at most limit estimated tokens. First it masks the large results
// of old steps. If that is not enough, it leaves out the oldest messages, but never separates a
// call from its result. ok is false if nothing more can be left out.
func (s *Session) compact(m Moment, limit int) (fact ContextCompacted, ok bool) {
	before := tokens(s.Context())
	starts := s.boundaries()
	if len(starts) == 0 {
		return fact, false
	}
	last := starts[max(len(starts)-unmaskedSteps, 0)]
	candidate := s.Compacted
	candidate.Masked = max(last, candidate.Masked)
	candidate.Notification = s.omissionNotice(m, candidate.Drop) // the results that name task ids may be masked now
	fact = ContextCompacted{Strategy: "mask", Before: before, Compaction: candidate}
	if fact.After = tokens(candidate.view(s.Transcript)); fact.After <= limit {
		return fact, fact.After < before
	}
	fact.Strategy = "drop"
	starts = slices.DeleteFunc(starts, func(start int) bool { return start <= candidate.Drop })
	if len(starts) == 0 {
		return fact, fact.After < before
	}
	drop := func(i int) int { // leaves out everything before starts[i] and returns the remaining tokens
		candidate.Drop = starts[i]
		candidate.Notification = s.omissionNotice(m, starts[i])
		fact.Compaction, fact.After = candidate, tokens(candidate.view(s.Transcript))
		return fact.After
	}
	first := sort.Search(len(starts), func(i int) bool { return drop(i) <= limit })
	drop(min(first, len(starts)-1))
	return fact, fact.After < before
}

// SummariseContext asks the model for a summary of what is about to be left out. The answer is
// context.compacted, with the summary, or without one if the model did not give any.
type SummariseContext struct {
	Turn        TurnID
	Fact        ContextCompacted // used as it is if there is no summary
	NextAttempt *ReasonStarted   // the attempt that follows; nil: the reason step has not started yet
}

func (SummariseContext) command() {}

// MaxSummaryBytes bounds a summary.
const MaxSummaryBytes = 4000

const summaryMark = "Summary of what is left out:\n"

// Omitted returns what the model still sees and will not see after c, including an earlier notice.
// The first message stays visible.
func (s *Session) Omitted(c SummariseContext) []Message {
	old := s.Compacted
	return old.view(s.Transcript[:min(c.Fact.Compaction.Drop, len(s.Transcript))])
}

// Events returns the events that end the command. An empty summary means that none was written.
func (c SummariseContext) Events(s *Session, summary string) []Event {
	fact := c.Fact
	if summary = strings.TrimSpace(shorten.Chars(strings.ToValidUTF8(summary, ""), MaxSummaryBytes/4)); summary != "" {
		notice := fact.Compaction.Notification
		text := notice.Text()
		if old := s.Compacted.Summary; old != "" { // the new summary covers the old one
			text = strings.Replace(text, "\n"+summaryMark+old, "", 1)
		}
		first, rest, _ := strings.Cut(text, "\n")
		notice.Parts = []Part{{Type: PartText, Text: strings.TrimSuffix(first+"\n"+summaryMark+summary+"\n"+rest, "\n")}}
		fact.Strategy, fact.Compaction.Summary, fact.Compaction.Notification = "summarise", summary, notice
		fact.After = tokens(fact.Compaction.view(s.Transcript))
	}
	events := []Event{{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: fact}}
	if c.NextAttempt != nil {
		events = append(events, Event{Session: s.ID, Actor: "runtime", Turn: c.Turn, Fact: *c.NextAttempt})
	}
	return events
}

// compactionDue returns the compaction that is due before a model call. ok is false if the context
// fits, or if nothing more can be left out.
func (s *Session) compactionDue(m Moment) (fact ContextCompacted, ok bool) {
	limit := s.Agent.MaxContextTokens
	if limit <= 0 || tokens(s.Context()) <= limit {
		return fact, false
	}
	return s.compact(m, limit)
}

// needsSummary reports whether the model must first summarise what fact leaves out.
func (s *Session) needsSummary(fact ContextCompacted) bool {
	return s.Agent.Summarise && fact.Compaction.Drop > max(s.Compacted.Drop, 1)
}

// boundaries returns the indexes before which the transcript may be cut: the cut leaves no result
// without its call. The last step is never left out.
func (s *Session) boundaries() []int {
	var starts []int
	for i, m := range s.Transcript {
		if i > 1 && m.Role != RoleToolResult {
			starts = append(starts, i)
		}
	}
	return starts
}

// omissionNotice returns the notice that takes the place of the messages before an index: their
// number, the summary and the open tasks. Without any of them it has no parts.
func (s *Session) omissionNotice(m Moment, before int) Message {
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

// maxOpenLines bounds the lines of OpenTasksText.
const maxOpenLines = 20

// OpenTasksText lists background tasks for the model: the ones that run, then the ones that have
// ended and whose result the model has not seen. The text becomes part of a compacted context, so
// that the model still knows the ids. It contains no times: the same tasks give the same text, and
// the provider's prompt cache stays valid.
//
// The tasks must be in the order of their creation. Other tasks are skipped. The text is empty if
// no task is left. Tasks beyond 20 lines are only counted; list_tasks shows them.
func OpenTasksText(tasks []Task) string {
	var live, over []string
	for _, t := range tasks {
		switch {
		case t.Lane == Foreground: // the transcript has its call, which waits for the result
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
	if limit := maxOpenLines - 1; len(lines) > limit {
		left := len(lines) - (limit - 1)
		lines = append(lines[:limit-1:limit-1], fmt.Sprintf("- and %d more: call list_tasks", left))
	}
	return "Open background tasks:\n" + strings.Join(lines, "\n")
}

// openLine is the line of one task in OpenTasksText.
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
