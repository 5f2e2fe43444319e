package perdure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// MaxSummaryChars is how long the line is that stands for a result.
const MaxSummaryChars = 1000

// maxSummaryValueChars is how much of one value of an object or a list stands in a summary.
const maxSummaryValueChars = 300

// SummaryLine makes one line of a text: white space is folded, and what is beyond MaxSummaryChars is cut.
func SummaryLine(text string) string { return oneLine(text, MaxSummaryChars) }

// Brief is the one line that stands for the result: the tool's own summary, or what Summarise makes of the result.
func (r ToolResult) Brief() string {
	if own := SummaryLine(r.Summary); own != "" {
		return own
	}
	return Summarise(r.Result)
}

// Summarise makes the one line that stands for a result, in words: a text is itself, an object is its fields with their
// values, and a list is how many items it has and what they are. Objects and lists inside of them are counted only. Empty:
// it is no JSON.
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

// summariseObject names the fields of an object in their order. It stops where the line is full, so that a large object is
// not decoded whole.
func summariseObject(object json.RawMessage) string {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token() // the brace, and below only what is valid
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

// summariseList counts the items of a list, and says what those are that are no objects and lists.
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

// summariseValue is a value in words.
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

// clippedValue is a value in words, cut so that one long value leaves room for the others.
func clippedValue(value json.RawMessage) string {
	text := strings.Join(strings.Fields(summariseValue(value)), " ")
	if text == "" {
		return "empty"
	}
	if short := cut(text, maxSummaryValueChars); short != text {
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
