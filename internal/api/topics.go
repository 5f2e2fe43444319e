package api

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"

	"github.com/perdure/perdure"
)

// maxTopics is how many topics one stream may have.
const maxTopics = 50

// topicQuery holds the parameters of a stream of several topics.
type topicQuery struct {
	Topics string `query:"topics" example:"session_019aa0000000700080000000000000aa,tasks,approvals" doc:"The topics to follow, separated by commas, at most 50: session ids, the lists sessions, tasks, approvals and schedules, and work, the counts of get-work as a list with one item. ID@SEQ begins after that seq of the session instead of with a snapshot."`
	After  string `query:"after" doc:"The id of the last frame received, of a stream of the same topics. Without it each topic starts with a snapshot."`
	Types  string `query:"types" doc:"Only these types of session events: at most 40, separated by commas; tool.* matches all types that start with tool."`
	LastID string `header:"Last-Event-ID" doc:"Like after, over which it takes precedence."`
	Accept string `header:"Accept" hidden:"true"`
}

func (a topicHandlers) register() {
	read(a.API, operation{
		id: "follow-topics", path: "/v1/events", policy: reads, class: staysOpen, summary: "Follow sessions and lists in one stream",
		errors: []int{http.StatusNotFound},
		forms: map[string]*huma.MediaType{formEvents: {Schema: &huma.Schema{
			Type: huma.TypeString, Description: "Server-Sent Events: id is a position in all topics, event the type, data {topic, data}.",
		}}},
	}, a.topicStream)
}

// topicStream follows several topics in one stream (ST6).
func (a topicHandlers) topicStream(ctx context.Context, in *topicQuery) (*streamed, error) {
	if negotiate(in.Accept, formEvents) == "" {
		return nil, notAcceptable(formEvents)
	}
	filter, err := newTypeFilter(in.Types)
	if err != nil {
		return nil, err
	}
	names, err := topicNames(in.Topics)
	if err != nil {
		return nil, err
	}
	names, starts, err := topicStarts(names)
	if err != nil {
		return nil, err
	}
	which := orgPrefix(ctx) + "topics " + strings.Join(names, ",")
	field, text := "query.after", in.After
	if in.LastID != "" {
		field, text = "header.Last-Event-ID", in.LastID
	}
	places, err := a.cursors.read(which, text, len(names))
	if err != nil {
		return nil, invalid(field, "it is not a position in these topics; start again without it")
	}
	if places == nil {
		places = starts
	}
	topics := make([]topic, len(names))
	for i, name := range names {
		if topics[i], err = a.topic(ctx, name, places[i]); err != nil {
			return nil, err
		}
	}
	return a.longRunning(ctx, formEvents, func(s *stream) error {
		f := a.follower(s, filter, requestOf(ctx).disclosure)
		f.topics, f.signedBy = topics, which
		return f.follow(ctx)
	}), nil
}

// topicNames parses ?topics= and removes duplicates.
func topicNames(text string) ([]string, error) {
	var names []string
	for name := range strings.SplitSeq(text, ",") {
		if name = strings.TrimSpace(name); name != "" && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	switch {
	case len(names) == 0:
		return nil, invalid("query.topics", "required: session ids, and the lists sessions, tasks, approvals, schedules and work, separated by commas")
	case len(names) > maxTopics:
		return nil, invalid("query.topics", "at most %d", maxTopics)
	}
	return names, nil
}

// topicStarts splits ID@SEQ into the names of the topics and the positions where they begin; an
// empty position starts with a snapshot. The names alone identify the topics, so that a client can
// send the same request again with the id of the last frame.
func topicStarts(given []string) (names, starts []string, err error) {
	for _, one := range given {
		name, seq, hasSeq := strings.Cut(one, "@")
		if _, isID, err := parseSeq("query.topics", seq); err != nil || hasSeq && !isID {
			return nil, nil, invalid("query.topics", "%q does not end in the seq of an event, or 0 for the start", cut(one, 60))
		}
		if hasSeq && !strings.HasPrefix(name, "session_") || slices.Contains(names, name) {
			return nil, nil, invalid("query.topics", "%q: only sessions begin at a seq, and each topic may be given once", cut(one, 60))
		}
		names, starts = append(names, name), append(starts, seq)
	}
	return names, starts, nil
}

// topic returns a topic by name, from a position on. An empty position starts with a snapshot.
func (a topicHandlers) topic(ctx context.Context, name, place string) (topic, error) {
	if list, known := a.listTopics()[name]; known {
		return &listTopic{key: listFeedKey{list: name}, read: list, sum: place}, nil
	}
	id, err := perdure.ParseID[perdure.SessionID](name)
	if err != nil {
		return nil, invalid("query.topics", "%q is neither the id of a session nor sessions, tasks, approvals, schedules or work", cut(name, 60))
	}
	session, err := a.cfg.Engine.Sessions().Get(ctx, id)
	if err != nil {
		return nil, err
	}
	t := &sessionTopic{session: session}
	if place != "" {
		at, err := strconv.ParseInt(place, 10, 64)
		if err != nil {
			return nil, errors.Join(perdure.Invalid, err) // cursors are signed and starts were parsed, so this does not fail
		}
		t.at, t.hasPosition, t.positionUnknown = at, true, at > session.LastSeq
	}
	return t, nil
}
