package modelwire_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/perdure/perdure/internal/modelwire"
	"github.com/perdure/perdure/model"
)

// TestFinish translates the words with which servers end an answer.
func TestFinish(t *testing.T) {
	t.Parallel()
	for want, words := range map[model.Finish]string{
		model.FinishStop:    "stop STOP eos_token end_turn tool_use tool_calls TOOL_CALL function_call COMPLETE pause_turn FINISH_REASON_STOP other OTHER unspecified tired",
		model.FinishLength:  "length max_tokens MAX_TOKENS model_length ERROR_LIMIT model_context_window_exceeded max-tokens",
		model.FinishRefusal: "content_filter content-filter SAFETY RECITATION PROHIBITED_CONTENT BLOCKLIST SPII refusal sensitive guardrail_intervened ERROR_TOXIC IMAGE_SAFETY",
		"": "error ERROR abort aborted timeout network_error NETWORK_ERROR insufficient_system_resource MALFORMED_FUNCTION_CALL malformed_function_call " +
			"UNEXPECTED_TOOL_CALL malformed_tool_use TOO_MANY_TOOL_CALLS engine_overloaded upstream_error connection_lost cancelled",
	} {
		for word := range strings.FieldsSeq(words) {
			got, err := modelwire.Finish(word)
			if got != want || (err != nil) != (want == "") || err != nil && (err.Code != model.Unavailable || !strings.Contains(err.Text, word)) {
				t.Errorf("%s: got %q, %v; want %q", word, got, err, want)
			}
		}
	}
}

// TestReadProblem reads the errors of servers in their forms.
func TestReadProblem(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]string{ // message | code | kind
		`{"error":{"message":"no","type":"t","code":"c","param":"p"}}`: "no|c|t",
		`{"error":"no"}`:                        "no||",
		`{"message":"no","code":400}`:           "no|400|",
		`{"detail":"no"}`:                       "no||",
		`{"detail":[{"msg":"no"}]}`:             `[{"msg":"no"}]||`,
		`{"error":{"message":{"detail":"no"}}}`: "no||",
		`{"error":["no","never"]}`:              "no; never||",
		`{"errors":[{"message":"no"}]}`:         `[{"message":"no"}]||`,
		`[{"error":{"code":429,"message":"no","status":"RESOURCE_EXHAUSTED"}}]`:                              "no|429|",
		`{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"error\":\"no\"}"}}}`: `Provider returned error: {"error":"no"}|400|`,
		`{"base_resp":{"status_code":1004,"status_msg":"no"}}`:                                               "no|1004|",
		`{"error_code":17,"error_msg":"no"}`:                                                                 "no|17|",
		`{"__type":"ThrottlingException","Message":"no"}`:                                                    "no||ThrottlingException",
		`{"title":"no","status":400}`:                                                                        "no||",
		`"no"`:                                                                                               "no||",
		`no`:                                                                                                 "no||",
		`<html><title> no
 way </title></html>`: "no way||",
		`<h1>no</h1><script>x</script><p>way</p>`: "no way||",
		`{}`: "||", `null`: "||", `[]`: "||", ``: "||", `{"error":{}}`: "||", `{"error":null}`: "||", `{"error":{"message":7}}`: "||",
	} {
		p := modelwire.ReadProblem([]byte(body))
		if got := p.Message + "|" + p.Code + "|" + p.Kind; got != want {
			t.Errorf("%s: got %s, want %s", body, got, want)
		}
	}
}

// TestPassing: an error that its words call a passing one is asked again, whatever its status.
func TestPassing(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]model.Code{
		"The engine is currently overloaded, please try again later": model.Unavailable,
		"Decode server is overloaded":                                model.Unavailable, // anomalyco/opencode#26110
		"This model is currently experiencing high demand.":          model.Unavailable, // VectifyAI/OpenKB#164
		"Loading model": model.Unavailable, "Model x is currently loading": model.Unavailable, "model is not ready": model.Unavailable,
		"We're currently processing too many requests": model.RateLimited, // enricoros/big-AGI#1210
		"Rate limit exceeded":                          model.RateLimited,
		"no such model":                                "", "try pulling it first": "", "invalid key": "",
	} {
		if got := (modelwire.Problem{Message: text}).Passing(); got != want {
			t.Errorf("%s: got %q, want %q", text, got, want)
		}
	}
	if got := (modelwire.Problem{Kind: "engine_overloaded_error"}).Passing(); got != model.Unavailable {
		t.Errorf("by its kind: got %q", got)
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "1e300": 24 * time.Hour, "-1": 0, "NaN": 0, "soon": 0, "": 0} {
		if got := modelwire.RetryAfter(http.Header{"Retry-After": {value}}); got != want {
			t.Errorf("%q: got %s, want %s", value, got, want)
		}
	}
}

// FuzzReadProblem reads any bytes as an error: nothing panics, and no wait is longer than a day.
func FuzzReadProblem(f *testing.F) {
	for _, text := range []string{`{"error":{"message":{"a":[1]}}}`, `[[{}]]`, `<title>`, `{"retry_after":1e309}`, `{"details":[{"retryDelay":"99999h"}]}`, `{"errors":[[]]}`} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		p := modelwire.ReadProblem(text)
		if p.RetryAfter < 0 || p.RetryAfter > modelwire.MaxWait {
			t.Errorf("got the wait %s", p.RetryAfter)
		}
		p.Passing()
		modelwire.NewRefused(400, text).NamesPicture(true)
	})
}
