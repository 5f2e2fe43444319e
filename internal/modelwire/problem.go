package modelwire

import (
	"cmp"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/perdure/perdure/model"
)

// Problem is an error in the form of a server. There are nearly as many forms as servers.
type Problem struct {
	Known               bool // the text had the form of an error
	Code, Kind, Param   string
	Message, StatusWord string
	RetryAfter          time.Duration // the wait that the text asks for; 0: none
}

// ReadProblem reads the body of an error: {"error":{…}}, {"error":"…"}, {"message":…},
// {"detail":…}, {"errors":[…]}, {"error_code":…,"error_msg":…}, a list of one of these, a text, or
// a page, of which only the words are read.
func ReadProblem(text []byte) Problem {
	var top any
	if json.Unmarshal(text, &top) != nil {
		said := strings.TrimSpace(string(text))
		if strings.HasPrefix(said, "<") {
			said = pageText(said)
		}
		return Problem{Message: said}
	}
	if list, ok := top.([]any); ok && len(list) > 0 {
		top = list[0]
	}
	outer, ok := top.(map[string]any)
	if !ok {
		return Problem{Message: plain(top), Known: plain(top) != ""}
	}
	inner := object(outer["error"])
	if inner == nil {
		inner = outer
	} else {
		delete(outer, "error") // its members are read from inner
	}
	p := Problem{
		Code:       cmp.Or(plain(inner["code"]), plain(inner["error_code"]), plain(inner["errorCode"])),
		Kind:       cmp.Or(plain(inner["type"]), plain(inner["error_type"]), plain(inner["__type"])),
		Param:      plain(inner["param"]),
		StatusWord: plain(inner["status"]),
		Message:    message(inner),
	}
	if p.Message == "" {
		p.Message = message(outer)
	}
	if raw := plain(object(inner["metadata"])["raw"]); raw != "" { // OpenRouter: the message of its own provider
		p.Message += ": " + raw
	}
	if status := object(outer["base_resp"]); status != nil && plain(status["status_code"]) != "0" { // MiniMax
		p.Code, p.Message = plain(status["status_code"]), cmp.Or(plain(status["status_msg"]), p.Message)
	}
	p.RetryAfter = waitOf(inner, outer)
	p.Known = p.Message != "" || p.Code != "" && outer["choices"] == nil
	return p
}

// messageKeys are the members of an error that may hold its text, the likeliest first.
const messageKeys = "message error errors msg error_msg error_message errorMessage Message status_msg fault faultstring detail title"

// message returns the text of an error; empty: it has none.
func message(of map[string]any) string {
	for _, key := range strings.Fields(messageKeys) {
		if text := words(of[key]); text != "" {
			return text
		}
	}
	return ""
}

// words returns the text of a member of an error, which may be another error, or a list of some.
func words(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case map[string]any:
		if text := message(v); text != "" {
			return text
		}
	case []any:
		if len(v) > 0 && len(v) == len(texts(v)) {
			return strings.Join(texts(v), "; ")
		}
	default:
		return ""
	}
	text, err := json.Marshal(v)
	if err != nil || len(text) < len(`{"":""}`) {
		return ""
	}
	return string(text)
}

// texts returns those elements of a list that are texts.
func texts(list []any) []string {
	var all []string
	for _, v := range list {
		if text, ok := v.(string); ok {
			all = append(all, text)
		}
	}
	return all
}

func object(v any) map[string]any {
	members, _ := v.(map[string]any)
	return members
}

// plain returns a string or a number as text; else "".
func plain(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return ""
}

var (
	tags = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?is)<(script|style|head)\b.*?</(script|style|head)>|<[^>]*>`)
	})
	title = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title>`) })
)

// pageText returns what a page says: its title, else its words.
func pageText(page string) string {
	if found := title().FindStringSubmatch(page); found != nil && strings.TrimSpace(found[1]) != "" {
		return strings.Join(strings.Fields(found[1]), " ")
	}
	return strings.Join(strings.Fields(tags().ReplaceAllString(page, " ")), " ")
}

// MaxWait is the longest wait that a provider may ask for.
const MaxWait = 24 * time.Hour

// waitOf returns the wait that the body of an error asks for: in seconds (Hugging Face while a
// model loads), or as the text of a duration in a list of details (Gemini).
func waitOf(all ...map[string]any) time.Duration {
	for _, of := range all {
		for _, key := range []string{"retry_after", "retry_after_seconds", "estimated_time", "resets_in_seconds"} {
			if n, ok := of[key].(float64); ok && n > 0 {
				return time.Duration(min(n, MaxWait.Seconds()) * float64(time.Second))
			}
		}
		details, _ := of["details"].([]any)
		for _, detail := range details {
			if d, err := time.ParseDuration(plain(object(detail)["retryDelay"])); err == nil && d > 0 {
				return min(d, MaxWait)
			}
		}
	}
	return 0
}

// RetryAfter returns the wait that the header of an answer asks for: in milliseconds, in seconds
// or as a date; 0: none.
func RetryAfter(header http.Header) time.Duration {
	numbers := []struct {
		name string
		unit time.Duration
	}{{"Retry-After-Ms", time.Millisecond}, {"Retry-After", time.Second}}
	for _, h := range numbers {
		n, err := strconv.ParseFloat(strings.TrimSpace(header.Get(h.name)), 64)
		if err == nil && n > 0 {
			return time.Duration(min(n*float64(h.unit), float64(MaxWait)))
		}
	}
	if at, err := http.ParseTime(header.Get("Retry-After")); err == nil {
		return min(max(time.Until(at), 0), MaxWait)
	}
	return 0
}

// The words of a refusal that another attempt may not meet. Servers say them under any status.
const (
	busyWords = "overloaded|over capacity|at capacity|capacity exceeded|no capacity|out of capacity|insufficient capacity|" +
		"temporarily unavailable|temporarily overloaded|try again later|retry later|retry your request|server is busy|server busy|" +
		"model is busy|engine is busy|high demand|no available channel|no healthy upstream|upstream connect error|bad gateway|" +
		"gateway time|service unavailable|connection reset|no slot available|under maintenance"
	loadingWords = "loading model|model is loading|currently loading|is still loading|still being loaded|model is being loaded|" +
		"model loading|model is not ready|model not ready|not yet loaded|is warming|warming up|model is starting|is booting|cold start"
	rateWords = "rate limit|rate_limit|ratelimit|too many requests|too_many_requests|requests per minute|tokens per minute|throttl|concurrency limit|too many concurrent"
)

// Passing returns the code of an error that its words call a passing one, whatever its status;
// empty: they do not.
func (p Problem) Passing() model.Code {
	all := strings.ToLower(strings.Join([]string{p.Code, p.Kind, p.StatusWord, p.Message}, " "))
	has := func(words string) bool { return containsAny(all, strings.Split(words, "|")...) }
	switch {
	case has(busyWords), has(loadingWords):
		return model.Unavailable
	case has(rateWords):
		return model.RateLimited
	}
	return ""
}

// Refused is a request that a server refused without executing it.
type Refused struct {
	Status int    // 0: in a stream
	Words  string // of the body, in small letters
}

// NewRefused returns the refusal of a request with this status and body. Its words are those of
// the body and, again, those of the error in it, where no character is escaped.
func NewRefused(status int, body []byte) Refused {
	return Refused{Status: status, Words: strings.ToLower(string(body) + " " + ReadProblem(body).Message)}
}

// MayNameSetting reports whether the refusal may be about what the request contains. Others are
// about keys, money, load or the server itself.
func (r Refused) MayNameSetting() bool {
	about := []int{0, http.StatusBadRequest, http.StatusNotFound, http.StatusRequestEntityTooLarge, http.StatusUnsupportedMediaType,
		http.StatusUnprocessableEntity, http.StatusInternalServerError, http.StatusNotImplemented}
	return slices.Contains(about, r.Status)
}

// Names reports whether the refusal names a field of the request.
func (r Refused) Names(field string) bool {
	return r.MayNameSetting() && strings.Contains(r.Words, field)
}

// Says reports whether the refusal contains one of some words.
func (r Refused) Says(words ...string) bool {
	return r.MayNameSetting() && containsAny(r.Words, words...)
}

// IsUnknownField reports whether the refusal says that it does not know the field it names.
func (r Refused) IsUnknownField() bool {
	return r.Says("unsupported", "not supported", "unrecognized", "unrecognised", "unknown", "unexpected", "extra_forbidden",
		"extra inputs", "extra fields", "not permitted", "not allowed", "additional propert", "no such field", "instead")
}

// NamesPicture reports whether the refusal is about pictures: their form, size or number, or that
// the model takes none. sent says that the request had pictures.
func (r Refused) NamesPicture(sent bool) bool {
	switch {
	case !sent:
		return false
	case r.Status == http.StatusRequestEntityTooLarge:
		return true
	}
	return r.Says("image", "picture", "vision", "multimodal", "multi-modal", "modalit", "media_type", "media type", "mime type",
		"base64", "pixel", "mmproj", "content must be a string", "content should be a string", "should be a valid string",
		"invalid type: sequence, expected a string", "expected a string", "visual")
}

// IsBadRequest reports whether the server called the request itself wrong.
func (r Refused) IsBadRequest() bool {
	return slices.Contains([]int{http.StatusBadRequest, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity}, r.Status)
}
