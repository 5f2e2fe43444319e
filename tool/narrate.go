package tool

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/redact"
)

// MaxNarrationChars is the length of a narration in characters; a longer one is cut off.
const MaxNarrationChars = 200

// Narration is the sentences with which a tool describes its calls to people, as templates.
//
// {path} is an argument of the call, and {result.size_bytes} a field of its result; a list stands
// for the number of its items. A part in square brackets is left out if a value in it is missing or
// empty: "Listed {path}[: {result.entries} entries]". If a value outside of brackets is missing,
// there is no sentence.
type Narration struct {
	Started   string // "Reading {path}"; no result
	Completed string // "Read {path}"
	Failed    string // "Could not read {path}": the error is added; no result
}

// Narrate describes a call to people: with the tool's own sentence as [Sentence] returns it, or
// with the display name or the name. It does not panic.
func Narrate(t Tool, call Call, phase Phase, locale string) string {
	spec := t.Spec()
	return cmp.Or(Sentence(t, call, phase, locale), spec.DisplayName, spec.Name)
}

// Sentence returns the sentence with which a tool describes a call: that of a [Narrator], or of its
// [Narration], or a verb from the arguments and the tool's noun ("Created agent: X"). It is one
// line of at most [MaxNarrationChars] characters, and empty if the tool has none. It does not
// panic.
func Sentence(t Tool, call Call, phase Phase, locale string) string {
	if narrator, ok := t.(Narrator); ok {
		if text := guarded(func() string { return narrator.Narrate(call, phase, locale) }); text != "" {
			return text
		}
	}
	spec := t.Spec()
	return oneLine(cmp.Or(spec.Narration.of(phase).fill(call.Args, nil),
		operationText(spec.Hints.NarrationNoun, call, phase)))
}

// EndSentence is [Sentence] for a call that has ended with a result. A [ResultNarrator] sees the
// result. A call that was stopped, or whose outcome is unknown, is described by its beginning.
func EndSentence(t Tool, call Call, result perdure.ToolResult, locale string) string {
	if narrator, ok := t.(ResultNarrator); ok {
		if text := guarded(func() string { return narrator.NarrateResult(call, result, locale) }); text != "" {
			return text
		}
	}
	switch {
	case result.ErrorKind == perdure.ErrorCanceled || result.ErrorKind == perdure.ErrorInterrupted:
		return extended(Sentence(t, call, PhaseStarted, locale), "stopped")
	case result.ErrorKind == perdure.ErrorUnknown:
		return extended(Sentence(t, call, PhaseStarted, locale), "the outcome is unknown")
	case result.IsError():
		return endOf(t, call, result, locale)
	}
	if _, own := t.(Narrator); !own {
		if text := oneLine(t.Spec().Narration.of(PhaseCompleted).fill(call.Args, result.Result)); text != "" {
			return text
		}
	}
	return Sentence(t, call, PhaseCompleted, locale)
}

// endOf describes a call that failed. Only a template is extended by the error: a narrator words
// its own sentence.
func endOf(t Tool, call Call, result perdure.ToolResult, locale string) string {
	if _, own := t.(Narrator); !own && t.Spec().Narration.Failed != "" {
		return extended(t.Spec().Narration.of(PhaseFailed).fill(call.Args, nil), result.Error)
	}
	return Sentence(t, call, PhaseFailed, locale)
}

// extended appends what happened to a sentence; without a sentence there is nothing to append to.
func extended(sentence, what string) string {
	if sentence == "" || what == "" {
		return oneLine(sentence)
	}
	return oneLine(sentence + ": " + what)
}

// guarded calls a narrator. A panic counts as no sentence.
func guarded(narrate func() string) (text string) {
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return oneLine(narrate())
}

// oneLine makes a text one line of at most MaxNarrationChars characters. What looks like a secret
// in it, such as the password of a URL, is hidden.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if text != "" {
		text = redact.Document(text)
	}
	if utf8.RuneCountInString(text) <= MaxNarrationChars {
		return text
	}
	return string([]rune(text)[:MaxNarrationChars-1]) + "…"
}

// sentence is one template of a Narration.
type sentence string

func (n Narration) of(phase Phase) sentence {
	switch phase {
	case PhaseStarted:
		return sentence(n.Started)
	case PhaseFailed:
		return sentence(n.Failed)
	}
	return sentence(n.Completed)
}

// maxValueBytes is how much of a value a sentence shows.
const maxValueBytes = 120

// fill returns the sentence with the values of a call; empty if one is missing. result may be nil.
func (s sentence) fill(args, result json.RawMessage) string {
	if s == "" {
		return ""
	}
	values := map[string]map[string]any{}
	values[""], _ = fieldsOf(args)
	if strings.Contains(string(s), "{result.") {
		values["result"], _ = fieldsOf(result)
	}
	var whole strings.Builder
	for rest := string(s); rest != ""; {
		before, group, found := strings.Cut(rest, "[")
		text, ok := fillPart(before, values)
		if !ok {
			return ""
		}
		whole.WriteString(text)
		if !found {
			break
		}
		group, rest, _ = strings.Cut(group, "]")
		if text, ok := fillPart(group, values); ok {
			whole.WriteString(text)
		}
	}
	return whole.String()
}

// fillPart fills in the values of a part of a sentence. Not ok: one is missing or empty.
func fillPart(part string, values map[string]map[string]any) (string, bool) {
	var b strings.Builder
	for {
		before, name, found := strings.Cut(part, "{")
		b.WriteString(before)
		if !found {
			return b.String(), true
		}
		name, part, _ = strings.Cut(name, "}")
		from := ""
		if of, field, dotted := strings.Cut(name, "."); dotted {
			from, name = of, field
		}
		text := valueText(values[from][name])
		if text == "" {
			return "", false
		}
		b.WriteString(text)
	}
}

// valueText returns a value as a sentence shows it.
func valueText(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case []any:
		return fmt.Sprint(len(v))
	case map[string]any:
		return ""
	case string:
		return clip(strings.Join(strings.Fields(v), " "), maxValueBytes)
	}
	return fmt.Sprint(value)
}

// operationText makes a sentence of the argument operation or action, and of name, title or
// new_name.
func operationText(noun string, call Call, phase Phase) string {
	fields, ok := fieldsOf(call.Args)
	verb := strings.ReplaceAll(firstText(fields, "operation", "action"), "_", " ")
	verb = strings.ToLower(strings.TrimSpace(clip(verb, 40)))
	if noun == "" || !ok || verb == "" {
		return ""
	}
	text := phrase(verb, phase) + " " + noun
	if object := firstText(fields, "name", "title", "new_name"); object != "" {
		text += ": " + clip(object, 100)
	}
	return text
}

func firstText(fields map[string]any, names ...string) string {
	for _, name := range names {
		if text, _ := fields[name].(string); strings.TrimSpace(text) != "" {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// phrase puts a verb into the form for the phase: Creating, Created, Could not create. Only the
// first word changes.
func phrase(verb string, phase Phase) string {
	first, rest, more := strings.Cut(verb, " ")
	if more {
		rest = " " + rest
	}
	switch phase {
	case PhaseStarted:
		return capitalised(participle(first)) + rest
	case PhaseFailed:
		return "Could not " + verb
	default:
		return capitalised(past(first)) + rest
	}
}

func participle(verb string) string {
	switch verb {
	case "get", "set", "run", "put", "stop":
		return verb + verb[len(verb)-1:] + "ing"
	}
	return strings.TrimSuffix(verb, "e") + "ing"
}

func past(verb string) string {
	irregular := map[string]string{
		"get": "got", "set": "set", "run": "ran", "put": "put", "stop": "stopped", "find": "found",
		"send": "sent", "read": "read", "write": "wrote",
	}
	if form, ok := irregular[verb]; ok {
		return form
	}
	if stem, ok := strings.CutSuffix(verb, "y"); ok && !strings.HasSuffix(stem, "a") && !strings.HasSuffix(stem, "o") {
		return stem + "ied"
	}
	return strings.TrimSuffix(verb, "e") + "ed"
}

func capitalised(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
