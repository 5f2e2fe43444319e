package background

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/strictjson"
	"github.com/perdure/perdure/tool"
)

// maxOutputBytes is the maximum size of a result inside a status. Even with JSON escapes, the
// status then stays within the limit of a result (TL16); the full result is in the file.
const maxOutputBytes = 32 << 10

// outputOf returns the result of an ended task: from its file, else from its record, else the
// summary. It returns nil if a failure left nothing but its own message.
func outputOf(ctx context.Context, env tool.Env, t perdure.Task) (any, error) {
	content, err := resultFile(ctx, env, t)
	if err != nil {
		return nil, err
	}
	if t.Error != nil && (content == nil || onlyFailure(content, t.Error.Message)) {
		return nil, nil
	}
	switch {
	case content == nil && json.Valid([]byte(t.Result)):
		return json.RawMessage(t.Result), nil
	case content == nil && t.Summary == "":
		return nil, nil
	case content == nil:
		return t.Summary, nil
	case len(content) > maxOutputBytes:
		return cut(content, t.ResultPath), nil
	case json.Valid(content):
		return json.RawMessage(bytes.TrimSpace(content)), nil
	}
	return strings.ToValidUTF8(string(content), "\uFFFD"), nil
}

// resultFile reads a task's result.json; nil if it does not exist.
func resultFile(ctx context.Context, env tool.Env, t perdure.Task) ([]byte, error) {
	if t.ResultPath == "" || env.Files == nil {
		return nil, nil
	}
	file, err := env.Files.Read(ctx, t.ResultPath)
	if errors.Is(err, perdure.NotFound) || errors.Is(err, perdure.Invalid) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read result of %s: %w", t.ID, err)
	}
	return file.Content, nil
}

// onlyFailure reports whether a result file contains only what BG14 writes for a failure.
func onlyFailure(content []byte, message string) bool {
	got, err := strictjson.Canonical(content)
	if err != nil {
		return false
	}
	for _, body := range []map[string]string{{"status": "failed", "error": message}, {"error": message}} {
		text, err := json.Marshal(body)
		if err != nil {
			return false
		}
		if want, err := strictjson.Canonical(text); err == nil && bytes.Equal(got, want) {
			return true
		}
	}
	return false
}

// cut shortens a result, in the format of TL16.
func cut(content []byte, path string) map[string]any {
	n := maxOutputBytes
	for n > maxOutputBytes-utf8.UTFMax && !utf8.RuneStart(content[n]) {
		n--
	}
	head := strings.ToValidUTF8(string(content[:n]), "\uFFFD")
	return map[string]any{"truncated": true, "bytes": len(content), "head": head, "path": path}
}
