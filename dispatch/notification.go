package dispatch

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// notedResult is how many bytes of a result a notification shows.
const notedResult = 4096

// Notification is the text by which a model learns of a late end (DL4): the transcript has the placeholder as the
// result of the call. It is data of a tool, not an instruction of a person; mark it so.
func (i Item) Notification() string {
	ended := perdure.Task{Run: perdure.RunID(i.Task), State: i.State, Tool: i.Tool, Summary: perdure.Summarise(i.Result.Result)}
	if i.Result.Error != "" {
		ended.Summary = i.Result.Error
	}
	text, note, _ := strings.Cut(ended.Notification(), "\n- note: ")
	if i.Call != "" {
		text += fmt.Sprintf("\n- call_id: %s\n- result: %s", i.Call, compact(i.Result.Result))
	}
	if note != "" {
		text += "\n- note: " + note
	}
	return text
}

// compact writes a result in one line and cuts it at a character.
func compact(result json.RawMessage) string {
	var line bytes.Buffer
	if json.Compact(&line, result) != nil {
		return ""
	}
	text := line.String()
	if len(text) <= notedResult {
		return text
	}
	end := notedResult
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return fmt.Sprintf("%s… (%d bytes in all)", text[:end], len(text))
}
