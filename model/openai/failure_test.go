package openai_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/model"
	"github.com/perdure/perdure/model/openai"
)

// ask asks for anything and returns the error.
func ask(t *testing.T, m model.Model) *model.Error {
	t.Helper()
	_, err := model.Collect(m.Stream(t.Context(), model.Request{Messages: []perdure.Message{perdure.Text("go")}}), nil)
	var e *model.Error
	if !errors.As(err, &e) {
		t.Fatalf("got %v, want a *model.Error", err)
	}
	return e
}

// refusal is an error of a server, and what is made of it.
type refusal struct {
	name   string
	status int
	body   string
	want   model.Code
	text   string // that the error has
}

func checkFailures(t *testing.T, cases []refusal) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()

			got := ask(t, serve(t, answering(c.status, nil, c.body), openai.Config{Key: "sk-secret"}))

			if got.Code != c.want || !strings.Contains(got.Text, c.text) {
				t.Errorf("got %v; want %s: %s", got, c.want, c.text)
			}
		})
	}
}

// TestFailureForms: errors of servers in forms and under statuses of their own.
func TestFailureForms(t *testing.T) {
	t.Parallel()
	checkFailures(t, []refusal{
		{"vLLM: overloaded, as 400", 400, `{"object":"error","message":"The engine is currently overloaded, please try again later","type":"BadRequestError","code":400}`, model.Unavailable, "overloaded"},
		{"a FastAPI server: overloaded", 400, `{"detail":"Prefill server is overloaded"}`, model.Unavailable, "Prefill"}, // anomalyco/opencode#26110
		{"loading, as 404", 404, `{"error":{"message":"Model x is loading model weights","code":404}}`, model.Unavailable, "loading"},
		{"llama.cpp: loading", 503, `{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}`, model.Unavailable, "Loading model"},                                                    // mostlygeek/llama-swap#146
		{"Hugging Face: loading", 400, `{"error":"Model x is currently loading","estimated_time":20.0}`, model.Unavailable, "loading"},                                                                    // BerriAI/litellm#668
		{"OpenAI: overloaded", 400, `{"error":{"message":"That model is currently overloaded with other requests. You can retry your request.","type":"server_error"}}`, model.Unavailable, "overloaded"}, // dust-tt/dust#428
		{"a rate limit, as 403", 403, `{"error":{"message":"Too many requests, slow down"}}`, model.RateLimited, "slow down"},
		{"no capacity at Groq", 498, `{"error":{"message":"capacity"}}`, model.Unavailable, "capacity"},
		{"a plain text", 400, `model is overloaded`, model.Unavailable, "overloaded"},
		{"a bare text in quotes", 400, `"bad request"`, model.Misconfigured, "bad request"},
		{"Mistral: a message that is an object", 422, `{"object":"error","message":{"detail":[{"type":"extra_forbidden","loc":["body","x"],"msg":"Extra inputs are not permitted"}]},"type":"invalid_request_error"}`, model.Misconfigured, "Extra inputs"},
		{"Cloudflare: a list of errors", 400, `{"success":false,"errors":[{"code":7003,"message":"Could not route to the model"}]}`, model.Misconfigured, "Could not route"},
		{"Baidu: error_msg", 400, `{"error_code":336003,"error_msg":"the max length of current question is 11200"}`, model.Misconfigured, "11200"},
		{"Zhipu: msg", 400, `{"code":1214,"msg":"the tools are wrong"}`, model.Misconfigured, "tools are wrong"},
		{"Apigee: fault", 401, `{"fault":{"faultstring":"Invalid ApiKey","detail":{"errorcode":"oauth.v2"}}}`, model.Misconfigured, "Invalid ApiKey"},
		{"an error whose message is null", 400, `{"error":{"message":null,"code":"x"},"message":"outside"}`, model.Misconfigured, "outside"},
		{"a page with a title", 503, `<html><head><title>503 Service Temporarily Unavailable</title></head><body>nginx</body></html>`, model.Unavailable, "Temporarily"},
	})
}

// TestFailures gives each documented form of an error its code (4.6).
func TestFailures(t *testing.T) {
	t.Parallel()
	checkFailures(t, []refusal{
		{"OpenAI: rate", 429, `{"error":{"message":"Rate limit reached for gpt-4.1","type":"tokens","param":null,"code":"rate_limit_exceeded"}}`, model.RateLimited, "Rate limit reached"},
		{"OpenAI: one request over the rate", 429, `{"error":{"message":"Request too large for gpt-4.1 on tokens per min (TPM): Limit 30000, Requested 52000.","type":"tokens","code":"rate_limit_exceeded"}}`, model.TooLarge, "Requested 52000"},
		{"OpenAI: quota", 429, `{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`, model.QuotaExhausted, "quota"},
		{"Gemini: rate in a list", 429, `[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED"}}]`, model.RateLimited, "quota"},
		{"a usage window", 429, `{"error":{"type":"usage_limit_reached","message":"The usage limit has been reached","resets_in_seconds":3600}}`, model.UsageLimit, "usage limit"},
		{"OpenAI: context", 400, `{"error":{"message":"This model's maximum context length is 128000 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`, model.TooLarge, "128000"},
		{"vLLM: context", 400, `{"object":"error","message":"This model's maximum context length is 6048 tokens. However, you requested 6616 tokens","type":"BadRequestError","param":null,"code":400}`, model.TooLarge, "6616"},
		{"vLLM: no room for an answer", 400, `{"object":"error","message":"max_tokens must be at least 1, got -186.","type":"BadRequestError","param":null,"code":400}`, model.TooLarge, "-186"},
		{"llama.cpp: context", 400, `{"error":{"code":400,"message":"the request exceeds the available context size. try increasing the context size or enable context shift","type":"exceed_context_size_error","n_prompt_tokens":14429,"n_ctx":8192}}`, model.TooLarge, "context size"},
		{"llama.cpp: context, as 500", 500, `{"error":{"code":500,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, model.TooLarge, "context size"},
		{"OpenRouter: context, said by its provider", 400, `{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":{\"code\":\"context_length_exceeded\"}}","provider_name":"OpenAI"}}}`, model.TooLarge, "Provider returned error"},
		{"a proxy: body", 413, `<html><body>413 Request Entity Too Large</body></html>`, model.TooLarge, "413"},
		{"OpenAI: schema", 400, `{"error":{"message":"Invalid schema for function 'f': schema must have a 'type' key.","type":"invalid_request_error","param":"tools[2].function.parameters","code":"invalid_function_parameters"}}`, model.InvalidToolSchema, "'f'"},
		{"DeepSeek: schema", 400, `{"error":{"message":"Invalid schema for function 'f': schema must be a JSON Schema of 'type: \"object\"', got 'type: \"string\"'.","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, model.InvalidToolSchema, "'f'"},
		{"OpenAI: name of a tool", 400, `{"error":{"message":"Invalid 'tools[0].function.name': string does not match pattern.","type":"invalid_request_error","param":"tools[0].function.name","code":"invalid_value"}}`, model.InvalidToolSchema, "pattern"},
		{"Ollama: no tools", 400, `{"error":{"message":"registry.ollama.ai/library/x does not support tools","type":"api_error","param":null,"code":null}}`, model.Misconfigured, "support tools"},
		{"stream_options", 400, `{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error","param":null,"code":null}}`, model.Misconfigured, "stream_options=false"},
		{"OpenAI: key", 401, `{"error":{"message":"Incorrect API key provided: sk-secret.","type":"invalid_request_error","param":null,"code":"invalid_api_key"}}`, model.Misconfigured, "provided: <redacted>."},
		{"OpenAI: country", 403, `{"error":{"message":"Country, region, or territory not supported","type":"request_forbidden","code":"unsupported_country_region_territory"}}`, model.Misconfigured, "Country"},
		{"OpenAI: model that the project may not use", 403, `{"error":{"message":"Project x does not have access to model y","type":"invalid_request_error","code":"model_not_found"}}`, model.ModelUnavailable, "access"},
		{"DeepSeek: balance", 402, `{"error":{"message":"Insufficient Balance","type":"unknown_error","param":null,"code":"invalid_request_error"}}`, model.QuotaExhausted, "Insufficient Balance"},
		{"Ollama: model", 404, `{"error":{"message":"model \"x\" not found, try pulling it first","type":"api_error","param":null,"code":null}}`, model.ModelUnavailable, "pulling"},
		{"older Ollama: model", 404, `{"error":"model 'x' not found"}`, model.ModelUnavailable, "'x'"},
		{"DeepSeek: model", 400, `{"error":{"message":"Model Not Exist","type":"invalid_request_error","param":null,"code":"invalid_request_error"}}`, model.ModelUnavailable, "Not Exist"},
		{"another path", 404, `404 page not found`, model.ModelUnavailable, "base URL"},
		{"FastAPI", 422, `{"detail":[{"type":"missing","loc":["body","messages"],"msg":"Field required"}]}`, model.Misconfigured, "Field required"},
		{"FastAPI, one text", 405, `{"detail":"Method Not Allowed"}`, model.Misconfigured, "Method"},
		{"OpenAI: server", 500, `{"error":{"message":"The server had an error","type":"server_error","param":null,"code":null}}`, model.Unavailable, "server had"},
		{"a gateway", 502, `<html>`, model.Unavailable, "502 Bad Gateway"},
		{"overloaded", 529, ``, model.Unavailable, "529"},
		{"a request that timed out", 408, ``, model.Unavailable, "408"},
		{"anything else", 418, `{"error":{"message":"teapot"}}`, model.Processing, "teapot"},
		{"an answer of status 204", 204, ``, model.Processing, "204"},
		{"an error of status 200", 200, `{"error":{"message":"no","type":"server_error"}}`, model.Unavailable, "no"},
		{"no answer", 200, `{"id":"x","object":"chat.completion"}`, model.Misconfigured, "instead of a stream"},
		{"a list that is no error", 200, `[]`, model.Misconfigured, "instead of a stream"},
	})
	t.Run("a page", func(t *testing.T) {
		t.Parallel()
		got := ask(t, serve(t, answering(200, map[string]string{"Content-Type": "text/html; charset=utf-8"}, "<html>"), openai.Config{}))
		if got.Code != model.Misconfigured || !strings.Contains(got.Text, "text/html") || !strings.Contains(got.Text, "base URL") {
			t.Errorf("got %v", got)
		}
	})
}

// TestRetryAfter reads when a provider wants to be asked again.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		status   int
		header   map[string]string
		min, max time.Duration
	}{
		{"seconds", 429, map[string]string{"Retry-After": "7"}, 7 * time.Second, 7 * time.Second},
		{"parts of a second", 503, map[string]string{"Retry-After": "1.5"}, 1500 * time.Millisecond, 1500 * time.Millisecond},
		{"milliseconds first", 429, map[string]string{"Retry-After": "7", "Retry-After-Ms": "250"}, 250 * time.Millisecond, 250 * time.Millisecond},
		{"a date", 429, map[string]string{"Retry-After": time.Now().Add(time.Hour).UTC().Format(http.TimeFormat)}, 50 * time.Minute, time.Hour},
		{"a date that has passed", 429, map[string]string{"Retry-After": "Mon, 02 Jan 2006 15:04:05 GMT"}, 0, 0},
		{"far too long", 429, map[string]string{"Retry-After": "1e300"}, 24 * time.Hour, 24 * time.Hour},
		{"less than nothing", 429, map[string]string{"Retry-After": "-7"}, 0, 0},
		{"no number", 429, map[string]string{"Retry-After": "NaN"}, 0, 0},
		{"an error that stays", 400, map[string]string{"Retry-After": "7"}, 0, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got := ask(t, serve(t, answering(c.status, c.header, `{}`), openai.Config{})).RetryAfter
			if got < c.min || got > c.max {
				t.Errorf("got %s, want %s to %s", got, c.min, c.max)
			}
		})
	}
}

// TestRetryAfterInBody: an error may ask for a wait in its own text.
func TestRetryAfterInBody(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]time.Duration{
		`{"error":"Model x is currently loading","estimated_time":20.5}`:                                                                                               20500 * time.Millisecond, // Hugging Face
		`[{"error":{"code":429,"message":"quota","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"34s"}]}}]`: 34 * time.Second,
		`{"error":{"message":"slow down","retry_after":3}}`:                                                                                                            3 * time.Second,
		`{"error":{"message":"slow down","retry_after":"soon","details":[7,{"retryDelay":"never"}]}}`:                                                                  0,
	} {
		if got := ask(t, serve(t, answering(429, nil, body), openai.Config{})).RetryAfter; got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// TestKeyStaysInside: whatever a provider echoes, no error shows the key, also not its beginning
// where a text is cut.
func TestKeyStaysInside(t *testing.T) {
	t.Parallel()
	key := "sk-" + strings.Repeat("k", 40)
	for n := 440; n < 510; n++ {
		text := strings.Repeat("ö", n/2) + key + strings.Repeat(" more", 100)
		got := ask(t, serve(t, answering(400, nil, fmt.Sprintf(`{"error":{"message":"%s"}}`, text)), openai.Config{Key: key}))
		if all := fmt.Sprintf("%v %+v %v", got, got, errors.Unwrap(got)); strings.Contains(all, "sk-k") {
			t.Fatalf("got %s", all)
		}
		if len(got.Text) > 510 {
			t.Fatalf("got %d bytes of text", len(got.Text))
		}
	}
}

// TestRedirect: a redirect is not followed, so that the key stays where it belongs.
func TestRedirect(t *testing.T) {
	t.Parallel()
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the redirect was followed") }))
	t.Cleanup(elsewhere.Close)

	got := ask(t, serve(t, http.RedirectHandler(elsewhere.URL+"/v1/chat/completions", http.StatusTemporaryRedirect), openai.Config{Key: "sk-secret"}))

	if got.Code != model.Misconfigured || !strings.Contains(got.Text, elsewhere.URL) {
		t.Errorf("got %v", got)
	}
}

// TestTransport: a server that cannot be reached may be there later; one that must not be reached
// will not.
func TestTransport(t *testing.T) {
	t.Parallel()
	const nobody = "http://127.0.0.1:1" // the port of a closed listener may become that of another test

	t.Run("nobody listens", func(t *testing.T) {
		t.Parallel()
		if got := ask(t, newModel(t, openai.Config{BaseURL: nobody, HTTP: &http.Client{Transport: &http.Transport{}}})); got.Code != model.Unavailable {
			t.Errorf("got %v", got)
		}
	})
	t.Run("nobody listens, through the guard", func(t *testing.T) {
		t.Parallel()
		if got := ask(t, newModel(t, openai.Config{BaseURL: nobody})); got.Code != model.Unavailable {
			t.Errorf("got %v", got)
		}
	})
	t.Run("the guard denies it", func(t *testing.T) {
		t.Parallel()
		elsewhere := newModel(t, openai.Config{BaseURL: nobody, HTTP: &http.Client{Transport: denial{}}})
		if got := ask(t, elsewhere); got.Code != model.Misconfigured || !strings.Contains(got.Text, "10.0.0.1 is private") {
			t.Errorf("got %v", got)
		}
	})
}

// denial is a transport whose guard denies everything.
type denial struct{}

func (denial) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, &perdure.EgressError{Code: perdure.EgressDenied, Host: "10.0.0.1", Rule: "address", Text: "10.0.0.1 is private"}
}
