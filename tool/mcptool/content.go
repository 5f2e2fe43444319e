package mcptool

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/tool"
)

// resultForModel converts a server's result for a model. Pictures become images of the result.
// Other bytes, which a model could only read as base64, are replaced by a text that names them; the
// whole result is then the raw output of the call. An error is a tool error, with its pictures.
func resultForModel(call tool.Call, r *mcp.CallToolResult) tool.Result {
	whole, err := json.Marshal(r)
	if err != nil {
		return tool.Internal(err)
	}
	c := &converter{file: tool.OutputPath(call.ID)}
	var fields map[string]any
	if err := perdure.DecodeJSON(whole, &fields); err != nil {
		return tool.Success(json.RawMessage(whole)) // it has values that only the server understands
	}
	fields["content"] = c.value(fields["content"])
	if structured, ok := fields["structuredContent"]; ok {
		fields["structuredContent"] = c.value(structured)
	}
	result := tool.Success(fields)
	if r.IsError {
		result = errorForModel(r, fields)
	}
	result.Images = c.images
	if c.omitted {
		result = result.WithRaw(string(whole))
	}
	return result
}

// errorForModel returns the tool error of a result. If its structured content says that its
// outcome is unknown, so is the outcome of the call.
func errorForModel(r *mcp.CallToolResult, shown map[string]any) tool.Result {
	text, only := textOnly(r)
	if !only {
		var texts []string
		blocks, _ := shown["content"].([]any)
		for _, block := range blocks {
			texts = append(texts, textOf(block))
		}
		text = strings.TrimSpace(strings.Join(texts, "\n"))
	}
	if structured := shown["structuredContent"]; structured != nil && text == "" {
		text = string(mustJSON(structured))
	}
	result := tool.Error(cmp.Or(text, "The MCP server reports an error and gives no reason."))
	var says struct {
		Outcome string `json:"outcome"`
	}
	if perdure.DecodeKnownJSON(mustJSON(r.StructuredContent), &says) == nil && says.Outcome == "unknown" {
		result.ErrorKind = perdure.ErrorUnknown
	}
	return result
}

// textOf returns the text of a block, or the block as JSON.
func textOf(block any) string {
	fields, _ := block.(map[string]any)
	if text, ok := fields["text"].(string); ok && fields["type"] == "text" {
		return text
	}
	return string(mustJSON(block))
}

// converter replaces bytes in a result by pictures and by texts that name them.
type converter struct {
	file    string // where the whole result is stored if something is omitted
	images  []perdure.Image
	omitted bool
}

// value converts a value with everything in it. Structured content often repeats the blocks, so
// both are converted alike.
func (c *converter) value(value any) any {
	switch v := value.(type) {
	case string:
		if media, data, ok := dataURI(v); ok {
			return c.named(media, data)["note"]
		}
	case []any:
		for i, one := range v {
			v[i] = c.value(one)
		}
	case map[string]any:
		if out, ok := c.block(v); ok {
			return out
		}
		for key, one := range v {
			v[key] = c.value(one)
		}
	}
	return value
}

// block converts a block of bytes; ok is false for every other object.
func (c *converter) block(v map[string]any) (out map[string]any, ok bool) {
	media, hasType := v["mimeType"].(string)
	kind, _ := v["type"].(string)
	if data, isText := v["data"].(string); isText && (kind == "image" || kind == "audio" || hasType && kind != "") {
		out = c.named(cmp.Or(media, kind), data)
		out["type"] = kind
		return out, true
	}
	data, isText := v["blob"].(string)
	if _, hasURI := v["uri"]; !isText || !hasURI && !hasType {
		return nil, false
	}
	if text, ok := textBlob(media, data); ok {
		out = map[string]any{"text": text, "mimeType": media}
	} else {
		out = c.named(media, data)
	}
	if v["uri"] != nil {
		out["uri"] = v["uri"]
	}
	return out, true
}

// named returns what the model reads in place of bytes. A picture becomes an image of the result.
func (c *converter) named(media, data string) map[string]any {
	raw, err := bytesOf(data)
	out := map[string]any{"mimeType": media}
	picture := pictureType(raw, media)
	switch {
	case err != nil:
		c.omitted = true
		out["note"] = fmt.Sprintf("not shown: its %d characters are not base64; %s", len(data), c.stored())
		return out
	case picture == "" || len(raw) > tool.MaxImageBytes:
		c.omitted = true
		out["note"] = fmt.Sprintf("not shown: %d bytes of %s; %s", len(raw), cmp.Or(media, "unknown content"), c.stored())
		return out
	}
	image := perdure.Image{MediaType: picture, Base64: base64.StdEncoding.EncodeToString(raw)}
	at := slices.Index(c.images, image)
	if at < 0 {
		at = len(c.images)
		c.images = append(c.images, image)
		c.omitted = c.omitted || at >= tool.MaxImages
	}
	out["mimeType"], out["note"] = picture, fmt.Sprintf("this is image %d of the result", at+1)
	return out
}

// stored says where the whole result is.
func (c *converter) stored() string { return "the whole result is stored in " + c.file }

// bytesOf decodes base64 of any of its forms: with or without padding and line breaks, with either
// alphabet, also after the beginning of a data URI.
func bytesOf(data string) ([]byte, error) {
	if _, inner, ok := dataURI(data); ok {
		data = inner
	}
	data = strings.TrimRight(strings.Map(func(r rune) rune {
		switch r {
		case ' ', '\t', '\r', '\n':
			return -1
		case '-':
			return '+'
		case '_':
			return '/'
		}
		return r
	}, data), "=")
	if data == "" {
		return nil, base64.CorruptInputError(0)
	}
	return base64.RawStdEncoding.DecodeString(data)
}

// dataURI splits a text that is nothing but a data URI with base64.
func dataURI(text string) (media, data string, ok bool) {
	rest, ok := strings.CutPrefix(text, "data:")
	if !ok {
		return "", "", false
	}
	head, data, ok := strings.Cut(rest[:min(len(rest), maxDataHead)], ";base64,")
	if !ok || strings.ContainsAny(head, " \"'<>") {
		return "", "", false
	}
	media, _, _ = strings.Cut(head, ";")
	return media, rest[len(head)+len(";base64,"):], true
}

// maxDataHead is the length of the part of a data URI in front of its data.
const maxDataHead = 200

// pictureType returns the media type of a picture that models accept: by its bytes, because servers
// often name another one, and if these say nothing, the one that the server names. Empty: it is no
// such picture.
func pictureType(raw []byte, named string) string {
	found := http.DetectContentType(raw)
	if found == "application/octet-stream" {
		found = named
	}
	switch found {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return found
	}
	return ""
}

// maxTextBlob is the size up to which a text that comes as bytes is shown.
const maxTextBlob = tool.ResultLimit

// textBlob returns the text of bytes that are a text.
func textBlob(media, data string) (string, bool) {
	kind := strings.ToLower(media)
	if !strings.HasPrefix(kind, "text/") && !strings.Contains(kind, "json") && !strings.Contains(kind, "xml") {
		return "", false
	}
	raw, err := bytesOf(data)
	if err != nil || len(raw) > maxTextBlob || !utf8.Valid(raw) || bytes.ContainsRune(raw, 0) {
		return "", false
	}
	return string(raw), true
}
