package tool

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/perdure/perdure"
)

// The limits of a result (TL16, TL17).
const (
	ResultLimit    = 64 << 10 // bytes of JSON, for the model
	RawOutputLimit = 8 << 20  // bytes of a whole output that is kept as a file
	MaxImages      = 10
	MaxImageBytes  = 5 << 20 // decoded, each
)

// plainName is a call id that may be the name of a file.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`) })

// OutputPath is where the whole output of a call is stored: its raw output, and its result where it has no raw output (TL16).
// Call ids come from models, so one that is no plain name is replaced by its hash.
func OutputPath(id perdure.CallID) string { return outputName(id) + ".txt" }

// ResultPath is where the whole result of a call is stored that also has raw output.
func ResultPath(id perdure.CallID) string { return outputName(id) + ".json" }

func outputName(id perdure.CallID) string {
	name := string(id)
	if !plainName().MatchString(name) {
		sum := sha256.Sum256([]byte(name))
		name = "sha256-" + hex.EncodeToString(sum[:])
	}
	return "/.outputs/" + name
}

// cutResult is what stands in the place of a result that is too long.
type cutResult struct {
	Truncated bool    `json:"truncated"`
	Bytes     int     `json:"bytes"` // of the whole
	Head      string  `json:"head"`
	Path      *string `json:"path"` // where the whole is; null: nowhere
	RawPath   string  `json:"raw_path,omitempty"`
	Note      string  `json:"note,omitempty"`
}

// Cut is [StoredOutput.Cut] for a result without raw output.
func Cut(record perdure.ToolResult, limit int, path string) perdure.ToolResult {
	return StoredOutput{Path: path}.Cut(record, limit)
}

// StoredOutput says which files have what is cut out of a result. An empty path says that it is not stored.
type StoredOutput struct {
	Path    string // of the whole result
	RawPath string // of the raw output
}

// Cut shortens a result for the model to limit bytes of JSON, at a rune boundary (TL16), and says where the whole of it is.
// An error stays an error, with its text cut. A result within the limit is returned as it is; a limit of 0 is none.
func (s StoredOutput) Cut(record perdure.ToolResult, limit int) perdure.ToolResult {
	if limit <= 0 || len(record.Result) <= limit {
		return record
	}
	if record.IsError() {
		return cutError(record, limit)
	}
	text := resultText(record.Result)
	cut := cutResult{Truncated: true, Bytes: len(record.Result), Path: &s.Path, RawPath: s.RawPath}
	switch {
	case s.Path == "":
		cut.Path, cut.Note = nil, "full output not stored"
	case len(record.Result) > RawOutputLimit:
		cut.Note = fmt.Sprintf("the file has only the beginning: at most %d bytes are stored", RawOutputLimit)
	}
	record.Result = longest(text, limit, func(head string) json.RawMessage {
		cut.Head = head
		body, _ := encode(cut) // strings, a number and a flag always encode
		return body
	})
	return record
}

func cutError(record perdure.ToolResult, limit int) perdure.ToolResult {
	whole := record.Error
	text := whole
	record.Result = longest(whole, limit, func(head string) json.RawMessage {
		text = fmt.Sprintf("%s… (%d bytes in all)", head, len(whole))
		return perdure.Failed(record.CallID, record.ErrorKind, text).Result
	})
	record.Error = text
	return record
}

// longest encodes the longest head of text, whole runes only, whose encoding keeps the limit. Where not
// even the empty head does, it encodes that.
func longest(text string, limit int, with func(head string) json.RawMessage) json.RawMessage {
	tooLong := sort.Search(min(len(text), limit)+1, func(n int) bool { return len(with(wholeRunes(text, n))) > limit })
	return with(wholeRunes(text, max(tooLong-1, 0)))
}

// resultText is what a reader sees of a result: the text itself of a JSON string, else the JSON.
func resultText(result json.RawMessage) string {
	fields, ok := fieldsOf(slices.Concat([]byte(`{"text":`), result, []byte(`}`)))
	if text, isText := fields["text"].(string); ok && isText {
		return text
	}
	return string(result)
}

// CheckImages drops images that no model takes and says so in the result (TL17): another media type than
// PNG, JPEG, GIF or WebP, base64 that does not decode, more than 5 MiB, more than ten.
func CheckImages(record perdure.ToolResult) perdure.ToolResult {
	var kept []perdure.Image
	var notes []string
	for i, image := range record.Images {
		problem := imageProblem(image)
		if problem == "" && len(kept) == MaxImages {
			problem = fmt.Sprintf("a result has at most %d images", MaxImages)
		}
		if problem != "" {
			notes = append(notes, fmt.Sprintf("[image %d left out: %s]", i+1, problem))
			continue
		}
		kept = append(kept, image)
	}
	record.Images = kept
	if len(notes) > 0 {
		record.Result = withNotes(record.Result, notes)
	}
	return record
}

func imageProblem(image perdure.Image) string {
	types := []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	if !slices.Contains(types, image.MediaType) {
		return fmt.Sprintf("the media type %q is not accepted", clip(image.MediaType, 40))
	}
	if base64.StdEncoding.DecodedLen(len(image.Base64)) > MaxImageBytes+2 { // padding is counted as content
		return "it is larger than 5 MiB"
	}
	content, err := base64.StdEncoding.DecodeString(image.Base64)
	switch {
	case err != nil:
		return "it is not base64"
	case len(content) > MaxImageBytes:
		return "it is larger than 5 MiB"
	}
	return ""
}

// withNotes adds lines to a text, a field to an object, and wraps anything else.
func withNotes(result json.RawMessage, notes []string) json.RawMessage {
	var value any
	if fields, ok := fieldsOf(result); ok {
		fields["image_notes"] = notes
		value = fields
	} else if text := resultText(result); text != string(result) {
		value = strings.Join(append([]string{text}, notes...), "\n")
	} else {
		value = map[string]any{"result": result, "image_notes": notes}
	}
	body, err := encode(value)
	if err != nil {
		return result
	}
	return body
}

// clip cuts text that is too long to repeat, at a rune boundary, and says so.
func clip(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return wholeRunes(text, maxBytes) + "…"
}

// wholeRunes returns at most n bytes of text without cutting a rune.
func wholeRunes(text string, n int) string {
	if n >= len(text) {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
