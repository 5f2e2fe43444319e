package openai

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/perdure/perdure/internal/modelhistory"
)

// reasoningContent is the field that DeepSeek, Moonshot and others use for thinking.
const reasoningContent = "reasoning_content"

// functionField is the field of a call that names its function.
const functionField = "function"

// extraContent is the field in which Gemini sends the signature of a call. A call of another model
// has none; noSignature is what Google documents for it.
const (
	extraContent = "extra_content"
	noSignature  = `{"google":{"thought_signature":"skip_thought_signature_validator"}}`
)

// maxOtherID is the longest id of a call that OpenAI accepts.
const maxOtherID = 40

// serverRules are what a server demands of messages beyond the rules that all servers share,
// because another server would refuse it. The zero value demands nothing.
type serverRules struct {
	shortIDs    bool  // ids of calls have nine letters and digits
	nullContent bool  // a message with calls only has no text, not an empty one
	signedCalls bool  // the first call of a message has a signature
	refused     names // fields that the server sends and does not accept back
	demanded    names // fields that each message of the agent needs
}

// names are names of fields, separated by spaces.
type names string

func (n names) has(name string) bool { return slices.Contains(n.list(), name) }

func (n names) list() []string { return strings.Fields(string(n)) }

func (n names) with(name string) names { return names(strings.TrimSpace(string(n) + " " + name)) }

// String describes the rules in one line; empty: there are none.
func (s serverRules) String() string {
	var all []string
	add := func(applies bool, what string) {
		if applies {
			all = append(all, what)
		}
	}
	add(s.shortIDs, "ids of nine letters and digits")
	add(s.nullContent, "no text beside calls")
	add(s.signedCalls, "signed calls")
	add(s.refused != "", "without "+string(s.refused))
	add(s.demanded != "", "with "+string(s.demanded))
	return strings.Join(all, ", ")
}

func (s serverRules) acceptsOwnID(id string) bool {
	return !s.shortIDs || modelhistory.IsShortID(id)
}

func (s serverRules) acceptsOtherID(id string) bool {
	if s.shortIDs {
		return modelhistory.IsShortID(id)
	}
	return modelhistory.IsPlainID(id, maxOtherID)
}

// accepted returns fields without those that the server refuses and those that the message sets
// itself.
func (s serverRules) accepted(all map[string]json.RawMessage, own names) fields {
	var left fields
	for name, value := range all {
		if !s.refused.has(name) && !own.has(name) {
			left = withField(left, name, value)
		}
	}
	return left
}

// errorWords are words of errors.
type errorWords struct {
	refusal *regexp.Regexp // a field that a message has
	demand  *regexp.Regexp // a field that a message lacks
	shortID *regexp.Regexp // the form of ids that Mistral demands
	empty   *regexp.Regexp // an empty text
}

var words = sync.OnceValue(func() errorWords {
	return errorWords{
		refusal: regexp.MustCompile(`(?i)unsupported|not supported|unknown|unexpected|extra|additional|` +
			`not permitted|not allowed|unrecogni[sz]ed|forbidden`),
		demand:  regexp.MustCompile(`(?i)missing|required?\b|must (be|have|contain|include)|passed back`),
		shortID: regexp.MustCompile(`(?i)length (of )?9\b`),
		empty:   regexp.MustCompile(`(?i)text content blocks must|text field in the ContentBlock|content field .* is empty`),
	}
})

// adapted returns the rules that also follow an error about messages that were written by these
// rules, and what the error demands; empty: nothing that can be followed.
func (s serverRules) adapted(text string, messages []message) (next serverRules, demand string) {
	name := fieldNamed(text, messages)
	switch {
	case !s.shortIDs && words().shortID.MatchString(text):
		s.shortIDs, demand = true, "ids of calls with nine letters and digits"
	case !s.nullContent && words().empty.MatchString(text) && hasEmptyText(messages):
		s.nullContent, demand = true, "no text beside calls"
	case !s.signedCalls && strings.Contains(text, "thought_signature") && words().demand.MatchString(text):
		s.signedCalls, demand = true, "a signature of calls, also of those of other models"
	case name == "" || s.refused.has(name):
	case words().refusal.MatchString(text):
		s.refused, demand = s.refused.with(name), "messages without "+name
	case !s.demanded.has(name) && words().demand.MatchString(text) && thinkingFields.has(name):
		s.demanded, demand = s.demanded.with(name), name+" in each answer"
	}
	return s, demand
}

// fieldNamed returns the field of the messages, or the field for thinking, that an error names.
func fieldNamed(text string, messages []message) string {
	all := map[string]bool{reasoningContent: true}
	for _, m := range messages {
		for name := range m.fields {
			all[name] = true
		}
		for _, c := range m.ToolCalls {
			for name := range c.fields {
				all[name] = true
			}
		}
	}
	found := ""
	for name := range all {
		if len(name) > len(found) && containsWord(text, name) {
			found = name
		}
	}
	return found
}

// containsWord reports whether a text contains a name that is not part of a longer one.
func containsWord(text, name string) bool {
	found, err := regexp.MatchString(`(?i)(^|[^A-Za-z0-9_])`+regexp.QuoteMeta(name)+`($|[^A-Za-z0-9_])`, text)
	return err == nil && found
}

func hasEmptyText(messages []message) bool {
	return slices.ContainsFunc(messages, func(m message) bool { return m.Content == "" })
}
