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

// The limits of a result.
const (
	ResultLimit    = 64 << 10 // bytes of JSON for the model
	RawOutputLimit = 8 << 20  // bytes of an output that is stored as a file
	MaxImages      = 10
	MaxImageBytes  = 5 << 20 // decoded, each
)

// plainName matches call ids that are safe file names.
var plainName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9_-]{1,128}$`) })

// OutputPath is where the full output of a call is stored: its raw output, or its result if it has
// no raw output. Call ids come from models, so an id that is not a plain name is replaced by its
// hash.
func OutputPath(id perdure.CallID) string { return outputName(id) + ".txt" }

// ResultPath is where the full result of a call is stored if it also has raw output.
func ResultPath(id perdure.CallID) string { return outputName(id) + ".json" }

func outputName(id perdure.CallID) string {
	name := string(id)
	if !plainName().MatchString(name) {
		sum := sha256.Sum256([]byte(name))
		name = "sha256-" + hex.EncodeToString(sum[:])
	}
	return "/.outputs/" + name
}

// cutResult replaces a result that is too long.
type cutResult struct {
	Truncated bool    `json:"truncated"`
	Bytes     int     `json:"bytes"` // of the full result
	Head      string  `json:"head"`
	Path      *string `json:"path"` // of the full result; null: not stored
	RawPath   string  `json:"raw_path,omitempty"`
	Note      string  `json:"note,omitempty"`
}

// Cut is [StoredOutput.CutByBudget] for a result without raw output.
func Cut(record perdure.ToolResult, limit int, path string) perdure.ToolResult {
	return StoredOutput{Path: path}.Cut(record, limit)
}

// StoredOutput says which files have the full output of a call. An empty path means that it is not
// stored.
type StoredOutput struct {
	Path    string // of the full result
	RawPath string // of the raw output
}

// Cut shortens a result for the model to limit bytes of JSON, at a character boundary, and says
// where the full result is. An error stays an error, with its text shortened. A result within the
// limit is returned unchanged; a limit of 0 means none.
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
		cut.Note = fmt.Sprintf("the file has only the first %d bytes", RawOutputLimit)
	}
	record.Result = longestFitting(text, limit, func(head string) json.RawMessage {
		cut.Head = head
		body, _ := encode(cut) // strings, a number and a flag always encode
		return body
	})
	return record
}

func cutError(record perdure.ToolResult, limit int) perdure.ToolResult {
	full := record.Error
	text := full
	record.Result = longestFitting(full, limit, func(head string) json.RawMessage {
		text = fmt.Sprintf("%s… (%d bytes in all)", head, len(full))
		return perdure.Failed(record.CallID, record.ErrorKind, text).Result
	})
	record.Error = text
	return record
}

// longestFitting returns the encoding of the longest head of text, at a character boundary, that
// fits the limit, or of the empty head if none fits.
func longestFitting(text string, limit int, with func(head string) json.RawMessage) json.RawMessage {
	tooLong := sort.Search(min(len(text), limit)+1, func(n int) bool { return len(with(cutAtRune(text, n))) > limit })
	return with(cutAtRune(text, max(tooLong-1, 0)))
}

// resultText returns the text of a JSON string, or else the JSON itself.
func resultText(result json.RawMessage) string {
	fields, ok := fieldsOf(slices.Concat([]byte(`{"text":`), result, []byte(`}`)))
	if text, isText := fields["text"].(string); ok && isText {
		return text
	}
	return string(result)
}

// CheckImages removes images that no model accepts, and says so in the result: media types other
// than PNG, JPEG, GIF and WebP, invalid base64, more than 5 MiB, more than ten images.
func CheckImages(record perdure.ToolResult) perdure.ToolResult {
	var accepted []perdure.Image
	var notes []string
	for i, image := range record.Images {
		problem := imageProblem(image)
		if problem == "" && len(accepted) == MaxImages {
			problem = fmt.Sprintf("a result has at most %d images", MaxImages)
		}
		if problem != "" {
			notes = append(notes, fmt.Sprintf("[image %d left out: %s]", i+1, problem))
			continue
		}
		accepted = append(accepted, image)
	}
	record.Images = accepted
	if len(notes) > 0 {
		record.Result = withNotes(record.Result, notes)
	}
	return record
}

func imageProblem(image perdure.Image) string {
	types := []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	if image.ID != "" && image.Base64 == "" { // the tool has stored it
		if _, err := perdure.ParseID[perdure.ImageID](string(image.ID)); err != nil {
			return fmt.Sprintf("%q is not the id of an image", clip(string(image.ID), 40))
		}
		return ""
	}
	if !slices.Contains(types, image.MediaType) {
		return fmt.Sprintf("the media type %q is not accepted", clip(image.MediaType, 40))
	}
	if base64.StdEncoding.DecodedLen(len(image.Base64)) > MaxImageBytes+2 { // padding counts as content here
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

// withNotes adds lines to a text, or a field to an object, and wraps any other result.
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

// clip shortens text at a character boundary and marks it as shortened.
func clip(text string, maxBytes int) string {
	if len(text) <= maxBytes {
		return text
	}
	return cutAtRune(text, maxBytes) + "…"
}

// cutAtRune returns at most n bytes of text without splitting a character.
func cutAtRune(text string, n int) string {
	if n >= len(text) {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}
