package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"mime"
	"net/http"

	"github.com/perdure/perdure/model"
)

// The request of the protocol, as far as it is used.
type (
	body struct {
		Model               string         `json:"model"`
		Messages            []message      `json:"messages"`
		Tools               []tool         `json:"tools,omitempty"`
		MaxTokens           int            `json:"max_tokens,omitempty"`
		MaxCompletionTokens int            `json:"max_completion_tokens,omitempty"`
		Stream              bool           `json:"stream"`
		StreamOptions       *streamOptions `json:"stream_options,omitempty"`
	}
	streamOptions struct {
		IncludeUsage bool `json:"include_usage"`
	}
	tool struct {
		Type     string   `json:"type"`
		Function function `json:"function"`
	}
	function struct {
		Name        string          `json:"name"`
		Description string          `json:"description,omitempty"`
		Parameters  json.RawMessage `json:"parameters"`
	}
)

// post sends the request. Any answer that is not a stream of events becomes an error, and its body
// is closed.
func (m *Model) post(ctx context.Context, req model.Request) (*http.Response, error) {
	b := m.body(req)
	if b.Model == "" {
		return nil, &model.Error{Code: model.ModelUnavailable, Text: "neither the request nor Config.Name names a model"}
	}
	text, err := json.Marshal(b)
	if err != nil {
		return nil, &model.Error{Code: model.InvalidToolSchema, Text: "the parameters of a tool are not valid JSON",
			Err: err}
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, m.endpoint, bytes.NewReader(text))
	if err != nil {
		return nil, &model.Error{Code: model.Misconfigured, Text: "the request could not be created", Err: err}
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	r.Header.Set("User-Agent", "perdure")
	if m.cfg.Key != "" {
		r.Header.Set("Authorization", "Bearer "+m.cfg.Key)
	}
	res, err := m.client.Do(r)
	if err != nil {
		return nil, m.mask(transportError(err))
	}
	if res.StatusCode == http.StatusOK && mayStream(res.Header) {
		return res, nil
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return nil, m.mask(notStreamError(res))
	}
	return nil, m.mask(statusError(res))
}

// mayStream reports whether the answer may be a stream of events. A missing content type counts as
// one.
func mayStream(header http.Header) bool {
	kind, _, err := mime.ParseMediaType(header.Get("Content-Type"))
	return err != nil && header.Get("Content-Type") == "" || kind == "text/event-stream" || kind == "text/plain"
}

func (m *Model) body(req model.Request) body {
	b := body{Model: cmp.Or(req.Model, m.cfg.Name), Messages: messagesOf(req), Stream: true}
	if !m.cfg.OmitUsage {
		b.StreamOptions = &streamOptions{IncludeUsage: true}
	}
	limit := cmp.Or(req.MaxTokens, m.cfg.MaxTokens)
	if m.limit == "max_tokens" {
		b.MaxTokens = limit
	} else {
		b.MaxCompletionTokens = limit
	}
	for _, t := range req.Tools {
		f := function{Name: t.Name, Description: t.Description, Parameters: t.Parameters}
		if len(f.Parameters) == 0 {
			// Some servers refuse a tool without parameters.
			f.Parameters = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		b.Tools = append(b.Tools, tool{Type: "function", Function: f})
	}
	return b
}

// notStreamError returns the error for an answer with status 200 that is not a stream.
func notStreamError(res *http.Response) *model.Error {
	text := head(res)
	if p := readProblem(text); p.known {
		return &model.Error{Code: p.codeInStream(), Text: p.message}
	}
	kind := cmp.Or(res.Header.Get("Content-Type"), "nothing")
	why := "is BaseURL right?"
	if mediaType, _, _ := mime.ParseMediaType(kind); mediaType == "application/json" {
		why = "it does not seem to support stream: true, which is required"
	}
	return &model.Error{Code: model.Misconfigured, Text: fmt.Sprintf("the server answered with %s instead of a stream: %s", kind, why)}
}
