package tool

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Narrate tells people in a sentence what a call does (TL7): the tool's own words, else those of an
// operation on a noun ("Created agent: X"), else the display name, else the name. It does not panic.
func Narrate(t Tool, call Call, phase Phase, locale string) string {
	spec := t.Spec()
	if text := ownWords(t, call, phase, locale); text != "" {
		return text
	}
	if text := operationWords(spec.Hints.NarrationNoun, call, phase); text != "" {
		return text
	}
	if spec.DisplayName != "" {
		return spec.DisplayName
	}
	return spec.Name
}

// ownWords asks a Narrator. One that panics says nothing.
func ownWords(t Tool, call Call, phase Phase, locale string) (text string) {
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

// operationWords makes a sentence of the arguments operation or action, and name, title or new_name.
func operationWords(noun string, call Call, phase Phase) string {
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

// phrase puts a verb into the form of the phase: Creating, Created, Could not create. Words after the first
// stay as they are.
func phrase(verb string, phase Phase) string {
	first, rest, more := strings.Cut(verb, " ")
	if more {
		rest = " " + rest
	}
	switch phase {
	case PhaseStarted:
		return capital(participle(first)) + rest
	case PhaseFailed:
		return "Could not " + verb
	default:
		return capital(past(first)) + rest
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

func capital(s string) string {
	first, size := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(first)) + s[size:]
}
