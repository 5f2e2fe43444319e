package modelwire

import (
	"slices"
	"strings"

	"github.com/perdure/perdure/model"
)

// The words with which servers end an answer, in small letters and with underscores. They are
// those of OpenAI, Anthropic, Gemini, Mistral, Cohere, Bedrock, DeepSeek, Zhipu, Hugging Face and
// Ollama.
const (
	stopWords = "stop eos eos_token end_turn stop_sequence complete completed done end finished normal pause_turn " +
		"tool_calls tool_call tool_use function_call function_calls calls"
	lengthWords = "length max_tokens model_length max_output_tokens max_length token_limit error_limit " +
		"context_length model_context_window_exceeded context_window_exceeded"
	refusalWords = "content_filter content_filtered safety recitation prohibited_content blocklist spii refusal sensitive " +
		"language image_safety image_prohibited_content guardrail_intervened error_toxic moderation flagged blocked"
	retryWords = "error abort aborted timeout network_error insufficient_system_resource cancelled canceled failed failure " +
		"server_error user_cancel interrupted incomplete malformed_function_call malformed_tool_call malformed_tool_use " +
		"unexpected_tool_call invalid_tool_call too_many_tool_calls malformed_response missing_thought_signature"
	// retryParts mark words of the last kind that nobody has listed.
	retryParts = "malformed network overload unavailable timeout timed_out _error error_ disconnect connection"
)

// Finish translates the word with which a server ended an answer. The results are FinishStop,
// FinishLength, FinishRefusal, or an error that is asked again. Whether there are calls is decided
// by the answer, because some servers say stop although there are calls, and some tool_calls
// although there are none. A word that nobody knows is a regular end for the same reason.
func Finish(word string) (model.Finish, *model.Error) {
	plain := strings.NewReplacer("-", "_", " ", "_").Replace(strings.ToLower(strings.TrimSpace(word)))
	plain = strings.TrimPrefix(plain, "finish_reason_")
	is := func(words string) bool { return slices.Contains(strings.Fields(words), plain) }
	switch {
	case is(stopWords):
		return model.FinishStop, nil
	case is(lengthWords):
		return model.FinishLength, nil
	case is(refusalWords):
		return model.FinishRefusal, nil
	case is(retryWords), containsAny(plain, strings.Fields(retryParts)...):
		return "", &model.Error{Code: model.Unavailable, Text: "the provider stopped the answer: " + word}
	}
	return model.FinishStop, nil
}

func containsAny(text string, parts ...string) bool {
	return slices.ContainsFunc(parts, func(part string) bool { return strings.Contains(text, part) })
}
