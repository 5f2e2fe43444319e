package shorten

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxValueChars is the length to which each value in the line of [JSON] is cut, in characters.
const maxValueChars = 300

// JSON describes a JSON value in one line of at most n characters. A string is used as it is. An
// object becomes its fields with their values, a list the number of its items with their values.
// Nested objects and lists are only counted. The line is empty if value is not valid JSON.
func JSON(value json.RawMessage, n int) string {
	value = bytes.TrimSpace(value)
	if len(value) == 0 || !json.Valid(value) {
		return ""
	}
	switch value[0] {
	case '{':
		return Line(describeObject(value, n), n)
	case '[':
		return Line(describeList(value, n), n)
	}
	return Line(describeValue(value), n)
}

// describeObject lists the fields of an object in their order. It stops at n characters, so that a
// large object is not decoded completely.
func describeObject(object json.RawMessage, n int) string {
	dec := json.NewDecoder(bytes.NewReader(object))
	_, _ = dec.Token() // the opening brace; the text is valid JSON
	var line strings.Builder
	for dec.More() && utf8.RuneCountInString(line.String()) < n {
		name, _ := dec.Token()
		var value json.RawMessage
		if dec.Decode(&value) != nil {
			break
		}
		if line.Len() > 0 {
			line.WriteString("; ")
		}
		fmt.Fprintf(&line, "%s: %s", Line(fmt.Sprint(name), 100), clippedValue(value))
	}
	if line.Len() == 0 {
		return "no fields"
	}
	return line.String()
}

// describeList counts the items of a list and lists the scalar ones.
func describeList(list json.RawMessage, n int) string {
	var plain strings.Builder
	items := 0
	eachItem(list, func(item json.RawMessage) {
		items++
		if item[0] == '{' || item[0] == '[' || utf8.RuneCountInString(plain.String()) >= n {
			return
		}
		if plain.Len() > 0 {
			plain.WriteString("; ")
		}
		plain.WriteString(clippedValue(item))
	})
	if plain.Len() == 0 {
		return counted(items, "item")
	}
	return counted(items, "item") + ": " + plain.String()
}

// describeValue describes one value.
func describeValue(value json.RawMessage) string {
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
	text := strings.Join(strings.Fields(describeValue(value)), " ")
	if text == "" {
		return "empty"
	}
	if short := Chars(text, maxValueChars); short != text {
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
