// Package modelhistory turns a conversation into turns that every model server accepts.
//
// It may import the root, model and strictjson.
//
// The one thing to know: a history that a server refuses fails every later turn of its session.
// Servers differ in what they refuse, so the turns follow the strictest rule of each kind, and the
// adapters of all protocols write their requests from them:
//
//	user and agent alternate; the first and the last turn are the user's
//	no text is blank, no turn is empty
//	a user's turn has exactly one result for each call of the turn before, in the order of the calls
//	a call has a plain name, an object as its arguments, and an id that no other call has
//	what a provider wants back goes to that provider only
//
// Nothing that was said or done is left out: a result without a call becomes a text, and a call
// without a result gets one that says so.
package modelhistory

import (
	"encoding/json"
	"slices"
	"strings"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
)

// Texts for a turn of the user that the rules require and the conversation does not have.
const (
	OpeningText  = "(The conversation begins here.)"
	ContinueText = "Continue."
)

// Rules are what the turns depend on, apart from the conversation.
type Rules struct {
	Family string // of the request's model; see Family
	// OwnID reports whether the provider accepts an id that it gave itself, and OtherID whether it
	// accepts one of unknown origin. Another id is substituted.
	OwnID, OtherID func(id string) bool
}

// Turn is what one side says before the other side does.
type Turn struct {
	Agent   bool
	Answers []Answer  // of the agent; at least one
	Results []Result  // of the calls of the agent's turn before
	Content []Content // of the user; only this or Results may be empty
}

// Answer is an answer of the model: at least one text or call.
type Answer struct {
	Texts []string
	Calls []Call
	Model string // the model that answered; empty: not known
	// Thinking, Signature and State are empty if another family gave the answer. State is also nil
	// if it is not known which family did.
	Thinking, Signature string
	State               *perdure.ProviderState
}

// Call is a call of the agent.
type Call struct {
	ID     string
	Name   string          // letters, digits, underscores and hyphens, at most 64
	Input  json.RawMessage // an object
	Fields map[string]json.RawMessage

	key   perdure.CallID
	given string // the provider's id; empty: it gave none
}

// Result is the result of a call.
type Result struct {
	ID string // of the call, as in Call
	perdure.ToolResult

	pending bool // no result was found yet
}

// Content is a text or an image of a user's turn.
type Content struct {
	Text         string // not blank, unless Image is set; of a notification: with its mark
	Image        *perdure.Image
	Notification bool // it comes from the runtime or a tool, not from the user
}

// Turns returns the turns of a conversation.
func Turns(messages []perdure.Message, rules Rules) []Turn {
	b := builder{family: rules.Family}
	for _, m := range messages {
		b.add(m)
	}
	b.end()
	setIDs(b.turns, rules)
	return b.turns
}

// builder collects turns.
type builder struct {
	family string
	turns  []Turn
}

func (b *builder) add(m perdure.Message) {
	b.addAnswer(b.answerOf(m))
	for _, p := range m.Parts {
		switch {
		case p.Result != nil:
			b.addResult(*p.Result)
		case m.Role == perdure.RoleAgent:
		case p.Image != nil:
			b.addContent(Content{Image: p.Image, Notification: m.Role == perdure.RoleNotification})
		case strings.TrimSpace(p.Text) == "":
		case m.Role == perdure.RoleNotification:
			b.addContent(Content{Text: model.NotificationMark + "\n" + p.Text, Notification: true})
		default: // the text of a result stands for what it cannot show
			b.addContent(Content{Text: p.Text, Notification: m.Role == perdure.RoleToolResult})
		}
	}
}

// answerOf returns the part of a message that the agent says. A message of another role can only
// contain a call.
func (b *builder) answerOf(m perdure.Message) Answer {
	answer := Answer{Model: m.Model, Thinking: m.Thinking, Signature: m.Signature, State: m.State}
	own := m.State != nil && m.State.Family == b.family
	if m.State != nil && !own {
		answer.Thinking, answer.Signature, answer.State = "", "", nil
	}
	for _, p := range m.Parts {
		switch {
		case p.Call != nil:
			answer.Calls = append(answer.Calls, callOf(*p.Call, m.State != nil, own))
		case m.Role == perdure.RoleAgent && p.Result == nil && strings.TrimSpace(p.Text) != "":
			answer.Texts = append(answer.Texts, p.Text)
		}
	}
	return answer
}

// addAnswer adds an answer. One without texts and calls, as an interrupt leaves it, is left out.
func (b *builder) addAnswer(a Answer) {
	if len(a.Texts) == 0 && len(a.Calls) == 0 {
		return
	}
	n := len(b.turns)
	switch {
	case n == 0:
		b.addContent(Content{Text: OpeningText})
	case b.turns[n-1].Agent:
		b.turns[n-1].Answers = append(b.turns[n-1].Answers, a)
		return
	}
	b.turns = append(b.turns, Turn{Agent: true, Answers: []Answer{a}})
}

// user returns the user's turn at the end. A new one has a place for each result.
func (b *builder) user() *Turn {
	n := len(b.turns)
	if n > 0 && !b.turns[n-1].Agent {
		return &b.turns[n-1]
	}
	var next Turn
	if n > 0 {
		for _, a := range b.turns[n-1].Answers {
			for _, c := range a.Calls {
				missing := perdure.Failed(c.key, perdure.ErrorInterrupted, perdure.TextInterrupted)
				next.Results = append(next.Results, Result{ToolResult: missing, pending: true})
			}
		}
	}
	b.turns = append(b.turns, next)
	return &b.turns[n]
}

func (b *builder) addContent(c Content) {
	turn := b.user()
	turn.Content = append(turn.Content, c)
}

// addResult adds a result to its call. One without a call that waits for it becomes a text.
func (b *builder) addResult(r perdure.ToolResult) {
	turn := b.user()
	at := slices.IndexFunc(turn.Results, func(have Result) bool { return have.pending && have.CallID == r.CallID })
	if at >= 0 {
		turn.Results[at] = Result{ToolResult: r}
		return
	}
	text := model.NotificationMark + "\nResult of call " + string(r.CallID) + ", which is not shown here: " + ResultText(r)
	turn.Content = append(turn.Content, Content{Text: text, Notification: true})
	for i := range r.Images {
		turn.Content = append(turn.Content, Content{Image: &r.Images[i], Notification: true})
	}
}

// end completes the last turn, which is the user's.
func (b *builder) end() {
	switch n := len(b.turns); {
	case n == 0:
		b.addContent(Content{Text: OpeningText})
	case b.turns[n-1].Agent:
		if len(b.user().Results) == 0 {
			b.addContent(Content{Text: ContinueText})
		}
	}
}

// ResultText returns the JSON of a result, or the text of an error without one. It is not empty.
func ResultText(r perdure.ToolResult) string {
	if text := strings.TrimSpace(string(r.Result)); text != "" {
		return text
	}
	problem := strings.TrimSpace(r.Error)
	if problem == "" {
		problem = string(r.ErrorKind)
	}
	if problem == "" {
		return "null"
	}
	text, err := json.Marshal(map[string]string{"error": problem})
	if err != nil {
		return "null"
	}
	return string(text)
}
