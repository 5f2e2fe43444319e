package perdure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxSummaryChars is the length of a summary line in characters.
const MaxSummaryChars = 1000

// maxSummaryValueChars is the length to which each value in a summary line is cut, in characters.
const maxSummaryValueChars = 300

// SummaryLine turns a text into one line: white space becomes single spaces, and the rest is cut at
// MaxSummaryChars.
func SummaryLine(text string) string { return oneLine(text, MaxSummaryChars) }

// Brief returns a one-line summary of the result: the tool's own, or else what Summarise returns.
func (r ToolResult) Brief() string {
	if own := SummaryLine(r.Summary); own != "" {
		return own
	}
	return Summarise(r.Result)
}

// Summarise describes a result in one line. A string is used as it is. An object becomes its fields
// with their values, a list the number of its items with their values. Nested objects and lists are
// only counted. The line is empty if result is not valid JSON.
func Summarise(result json.RawMessage) string {
	result = bytes.TrimSpace(result)
	if len(result) == 0 || !json.Valid(result) {
		return ""
	}
	switch result[0] {
	case '{':
		return SummaryLine(summariseObject(result))
	case '[':
		return SummaryLine(summariseList(result))
	}
	return SummaryLine(summariseValue(result))
}

// summariseObject lists the fields of an object in their order. It stops when the line is full, so
// that a large object is not decoded completely.
func summariseObject(object json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token() // the opening brace; the text is valid JSON
	var line strings.Builder
	for dec.More() && utf8.RuneCountInString(line.String()) < MaxSummaryChars {
		name, _ := dec.Token()
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break
		}
		if line.Len() > 0 {
			line.WriteString("; ")
		}
		fmt.Fprintf(&line, "%s: %s", oneLine(fmt.Sprint(name), 100), clippedValue(value))
	}
	if line.Len() == 0 {
		return "no fields"
	}
	return line.String()
}

// summariseList counts the items of a list and lists the scalar ones.
func summariseList(list json.RawMessage) string {
	var plain strings.Builder
	n := 0
	eachItem(list, func(item json.RawMessage) {
		n++
		if item[0] == '{' || item[0] == '[' || utf8.RuneCountInString(plain.String()) >= MaxSummaryChars {
			return
		}
		if plain.Len() > 0 {
			plain.WriteString("; ")
		}
		plain.WriteString(clippedValue(item))
	})
	if plain.Len() == 0 {
		return counted(n, "item")
	}
	return counted(n, "item") + ": " + plain.String()
}

// summariseValue describes one value.
func summariseValue(value json.RawMessage) string {
	switch value[0] {
	case '"':
		var text string
		if json.Unmarshal(value, &text) != nil {
			return ""
		}
		return text
	case '{':
		n := 0
		dec := json.NewDecoder(bytes.NewReader(value))
		_, _ = dec.Token()
		for ; dec.More(); n++ {
			var item json.RawMessage
			if _, err := dec.Token(); err != nil || dec.Decode(&item) != nil {
				break
			}
		}
		return counted(n, "field")
	case '[':
		n := 0
		eachItem(value, func(json.RawMessage) { n++ })
		return counted(n, "item")
	case 'n':
		return "nothing"
	}
	return string(value)
}

// clippedValue describes one value and cuts it, so that a long value leaves space for the others.
func clippedValue(value json.RawMessage) string {
	text := strings.Join(strings.Fields(summariseValue(value)), " ")
	if text == "" {
		return "empty"
	}
	if short := truncateChars(text, maxSummaryValueChars); short != text {
		return short + "…"
	}
	return text
}

func eachItem(list json.RawMessage, fn func(json.RawMessage)) {
	dec := json.NewDecoder(bytes.NewReader(list))
	_, _ = dec.Token()
	for dec.More() {
		var item json.RawMessage
		if dec.Decode(&item) != nil {
			return
		}
		fn(item)
	}
}

func counted(n int, noun string) string {
	switch n {
	case 0:
		return "no " + noun + "s"
	case 1:
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
