package tool

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Narrate describes a call to people: with the sentence of a Narrator, or with a verb from the
// arguments and the tool's noun ("Created agent: X"), or with the display name or the name. It does
// not panic.
func Narrate(t Tool, call Call, phase Phase, locale string) string {
	spec := t.Spec()
	if text := narratorText(t, call, phase, locale); text != "" {
		return text
	}
	if text := operationText(spec.Hints.NarrationNoun, call, phase); text != "" {
		return text
	}
	if spec.DisplayName != "" {
		return spec.DisplayName
	}
	return spec.Name
}

// narratorText calls a Narrator. A panic counts as no sentence.
func narratorText(t Tool, call Call, phase Phase, locale string) (text string) {
	narrator, ok := t.(Narrator)
	if !ok {
		return ""
	}
	defer func() {
		if recover() != nil {
			text = ""
		}
	}()
	return strings.TrimSpace(narrator.Narrate(call, phase, locale))
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
