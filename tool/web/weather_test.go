package web_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/perdure/perdure"
	"github.com/perdure/perdure/internal/egress"
	"github.com/perdure/perdure/tool"
	"github.com/perdure/perdure/tool/web"
)

// weatherServer implements the part of the Open-Meteo protocol that the tools use, and refuses
// everything else.
type weatherServer struct {
	t       *testing.T
	answers map[string]string
	asked   chan url.Values // the questions for weather; room for all of a test
}

// serveWeather starts a server, and a way out to it for the purpose of the weather tools and no
// other.
func serveWeather(t *testing.T) (*weatherServer, string, tool.Env) {
	t.Helper()
	archive, err := txtar.ParseFile(filepath.Join("testdata", "openmeteo.txtar"))
	if err != nil {
		t.Fatal(err)
	}
	s := &weatherServer{t: t, answers: map[string]string{}, asked: make(chan url.Values, 100)}
	for _, f := range archive.Files {
		s.answers[f.Name] = string(f.Data)
	}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL, tool.Env{Egress: guard(t, web.Purpose, server.URL), Locale: "de-DE"}
}

// guard is the real way out, with a server's address listed for one purpose.
func guard(t *testing.T, purpose, server string) tool.Egress {
	t.Helper()
	g, err := egress.New(egress.Config{Listed: []egress.Listing{{Purpose: purpose, Host: strings.TrimPrefix(server, "http://")}}})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// ServeHTTP answers by the name or the latitude that is asked for.
func (s *weatherServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	switch r.URL.Path {
	case "/base/v1/search":
		if q.Get("count") != "1" || q.Get("language") != "de" || q.Get("format") != "json" {
			s.t.Errorf("asked for a place with %v", q)
		}
		s.write(w, "search-"+strings.ToLower(q.Get("name"))+".json")
	case "/base/v1/forecast":
		s.asked <- q
		s.weather(w, q)
	default:
		s.t.Errorf("asked for %s", r.URL.Path)
	}
}

func (s *weatherServer) weather(w http.ResponseWriter, q url.Values) {
	special := map[string]string{"1": "nulls", "2": "nothing", "3": "twice", "4": "page", "5": "short", "6": "undated"}[q.Get("latitude")]
	switch {
	case q.Get("latitude") == "89":
		w.WriteHeader(http.StatusInternalServerError)
		s.write(w, "refused.json")
	case q.Get("daily") != "" && special != "":
		s.write(w, "daily-"+special+".json")
	case q.Get("daily") != "":
		s.write(w, "daily.json")
	case special != "":
		s.write(w, "current-"+special+".json")
	case q.Get("temperature_unit") == "fahrenheit":
		s.write(w, "current-imperial.json")
	default:
		s.write(w, "current-metric.json")
	}
}

func (s *weatherServer) write(w http.ResponseWriter, name string) {
	answer, ok := s.answers[name]
	if !ok {
		s.t.Errorf("there is no answer %s", name)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	if _, err := w.Write([]byte(answer)); err != nil {
		s.t.Log(err) // the client went away
	}
}

// tools is the set, with the weather at a server.
func tools(t *testing.T, server string) *tool.Registry {
	t.Helper()
	set, err := web.Tools(web.Config{WeatherURL: server + "/base/", GeocodingURL: server + "/base"})
	if err != nil {
		t.Fatal(err)
	}
	r := tool.NewRegistry(set...)
	if err := r.Err(); err != nil {
		t.Fatal(err)
	}
	return r
}

// session is tools and what they reach.
type session struct {
	tools *tool.Registry
	env   tool.Env
}

// run checks and runs a call and returns the JSON that a model reads.
func run(t *testing.T, in session, name, args string) string {
	t.Helper()
	results, err := in.tools.ExecuteAll(t.Context(), []tool.Call{{Tool: name, Args: json.RawMessage(args)}}, in.env)
	if err != nil {
		t.Fatal(err)
	}
	record, err := results[0].Record("call_1")
	if err != nil {
		t.Fatal(err)
	}
	return string(record.Result)
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWeather(t *testing.T) {
	t.Parallel()
	const unreadable = `{"error":"The weather service sent an invalid response. Try again later."}`
	const berlin = `"Berlin, State of Berlin, Germany"`
	_, server, env := serveWeather(t)
	set := tools(t, server)
	for _, test := range []struct{ name, tool, args, want string }{
		{"a zero is a value", "get_weather", `{"location":"Berlin"}`,
			`{"location":` + berlin + `,"latitude":52.52437,"longitude":13.41053,"observed_at":"2026-07-04T14:15:00+02:00",` +
				`"temperature":0,"humidity":58,"wind_speed":11.2,"condition":"moderate rain","units":"metric"}`},
		{"imperial, half an hour off, by coordinates", "get_weather", `{"location":" 52.52, 13.41 ","units":"imperial"}`,
			`{"location":"52.52, 13.41","latitude":52.52,"longitude":13.41,"observed_at":"2026-07-04T14:15:00-03:30",` +
				`"temperature":71.6,"humidity":58,"wind_speed":7,"condition":"clear sky","units":"imperial"}`},
		{"what is missing is null", "get_weather", `{"location":"1,1"}`,
			`{"location":"1,1","latitude":1,"longitude":1,"observed_at":"2026-07-04T14:15:00+02:00",` +
				`"temperature":21.4,"humidity":null,"wind_speed":null,"condition":"unknown (WMO code 42)","units":"metric"}`},
		{"no weather at all", "get_weather", `{"location":"2,2"}`, `{"error":"The weather service has no current data for 2,2."}`},
		{"a key twice", "get_weather", `{"location":"3,3"}`, unreadable},
		{"a page", "get_weather", `{"location":"4,4"}`, unreadable},
		{"not found", "get_weather", `{"location":"Nowhere"}`, `{"error":"Location not found: Nowhere"}`},
		{"found nothing", "get_forecast", `{"location":" Empty "}`, `{"error":"Location not found: Empty"}`},
		{"found without a place", "get_weather", `{"location":"Unplaced"}`, unreadable},
		{"not on earth", "get_weather", `{"location":"91,0"}`, `{"error":"Location not found: 91,0"}`},
		{"not a number", "get_weather", `{"location":"NaN,0"}`, `{"error":"Location not found: NaN,0"}`},
		{"blank", "get_weather", `{"location":" "}`, `{"error":"Location not found: "}`},
		{"500", "get_weather", `{"location":"89,0"}`, `{"error":"HTTP 500 from the weather service"}`},
		{"days", "get_forecast", `{"location":"Berlin"}`, `{"location":` + berlin + `,"units":"metric","days":[` +
			`{"date":"2026-07-04","min":13.2,"max":24.1,"precipitation":0,"condition":"overcast"},` +
			`{"date":"2026-07-05","min":12,"max":19.8,"precipitation":4.3,"condition":"slight rain"},` +
			`{"date":"2026-07-06","min":null,"max":null,"precipitation":null,"condition":null}]}`},
		{"never more days than asked", "get_forecast", `{"location":"Berlin","days":1}`, `{"location":` + berlin + `,"units":"metric","days":[` +
			`{"date":"2026-07-04","min":13.2,"max":24.1,"precipitation":0,"condition":"overcast"}]}`},
		{"lists too short", "get_forecast", `{"location":"5,5"}`, `{"location":"5,5","units":"metric","days":[` +
			`{"date":"2026-07-04","min":null,"max":24.1,"precipitation":null,"condition":"overcast"},` +
			`{"date":"2026-07-05","min":null,"max":19.8,"precipitation":null,"condition":null}]}`},
		{"no day", "get_forecast", `{"location":"2,2"}`, `{"error":"The weather service has no forecast for 2,2 at the moment."}`},
		{"no date", "get_forecast", `{"location":"6,6"}`, unreadable},
		{"too few days", "get_forecast", `{"location":"Berlin","days":0}`, `{"error":"Invalid arguments for get_forecast: /days: got 0, want at least 1"}`},
		{"too many days", "get_forecast", `{"location":"Berlin","days":15}`, `{"error":"Invalid arguments for get_forecast: /days: got 15, want at most 14"}`},
		{"half a day", "get_forecast", `{"location":"Berlin","days":1.5}`, `{"error":"Invalid arguments for get_forecast: /days: got number, want integer"}`},
		{"other units", "get_weather", `{"location":"Berlin","units":"kelvin"}`,
			`{"error":"Invalid arguments for get_weather: /units: value must be one of 'metric', 'imperial'"}`},
		{"no location", "get_weather", `{}`, `{"error":"Invalid arguments for get_weather: /location: is required"}`},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			want(t, run(t, session{set, env}, test.tool, test.args), test.want)
		})
	}
}

// TestWeatherQuestion compares what the service is asked with what its documentation says.
func TestWeatherQuestion(t *testing.T) {
	t.Parallel()
	s, server, env := serveWeather(t)
	set := tools(t, server)

	run(t, session{set, env}, "get_weather", `{"location":"-33.87,151.21"}`)
	run(t, session{set, env}, "get_forecast", `{"location":"0.00000001,151","days":14,"units":"imperial"}`)

	if len(s.asked) != 2 {
		t.Fatalf("asked %d times", len(s.asked))
	}
	want(t, (<-s.asked).Encode(), "current=temperature_2m%2Crelative_humidity_2m%2Cwind_speed_10m%2Cweather_code&latitude=-33.87&longitude=151.21&timezone=auto")
	want(t, (<-s.asked).Encode(), "daily=weather_code%2Ctemperature_2m_max%2Ctemperature_2m_min%2Cprecipitation_sum&forecast_days=14"+
		"&latitude=0.00000001&longitude=151&precipitation_unit=inch&temperature_unit=fahrenheit&timezone=auto&wind_speed_unit=mph")
}

// TestWeatherIsListedForItself wants an address that is listed for the weather shut for web_fetch,
// and the other way round (EG3).
func TestWeatherIsListedForItself(t *testing.T) {
	t.Parallel()
	_, server, env := serveWeather(t)
	set := tools(t, server)

	want(t, run(t, session{set, env}, "web_fetch", `{"url":"`+server+`/base/v1/search"}`), `{"error":"URL not allowed by network policy: 127.0.0.1"}`)
	env.Egress = guard(t, "", server)
	want(t, run(t, session{set, env}, "get_weather", `{"location":"1,1"}`), `{"error":"URL not allowed by network policy: the weather service"}`)
}

// TestNetworkList wants the session's list to be kept.
func TestNetworkList(t *testing.T) {
	t.Parallel()
	_, server, env := serveWeather(t)
	env.Network = perdure.NetworkList{Allowed: []string{"example.com"}}
	want(t, run(t, session{tools(t, server), env}, "get_weather", `{"location":"1,1"}`), `{"error":"URL not allowed by network policy: the weather service"}`)
}

func TestNoWayOut(t *testing.T) {
	t.Parallel()
	set := tools(t, "http://127.0.0.1:1")
	for name, args := range map[string]string{"get_weather": `{"location":"1,1"}`, "get_forecast": `{"location":"Berlin"}`, "web_fetch": `{"url":"https://example.com"}`} {
		want(t, run(t, session{set, tool.Env{}}, name, args),
			`{"error":"Egress service not available in this context. `+name+` requires access to the network."}`)
	}
}

// TestWeatherIsDown wants no address in what the model reads.
func TestWeatherIsDown(t *testing.T) {
	t.Parallel()
	const nobody = "http://127.0.0.1:1" // the port of a closed listener may become that of another test
	env := tool.Env{Egress: guard(t, web.Purpose, nobody)}

	want(t, run(t, session{tools(t, nobody), env}, "get_weather", `{"location":"1,1"}`),
		`{"error":"Could not reach the weather service: the connection failed or took too long. Try again later."}`)
}

// TestCanceled wants the cause of the end as the error, not a sentence for the model.
func TestCanceled(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}, 1), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		reached <- struct{}{}
		<-release
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(release) })
	set := tools(t, server.URL)
	for name, test := range map[string]struct{ purpose, args string }{
		"get_weather": {web.Purpose, `{"location":"1,1"}`}, "get_forecast": {web.Purpose, `{"location":"Berlin"}`}, "web_fetch": {"", `{"url":"` + server.URL + `"}`},
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			<-reached
			cancel(perdure.CauseInterrupt)
		}()

		got, err := set.Execute(ctx, tool.Call{Tool: name, Args: json.RawMessage(test.args)}, tool.Env{Egress: guard(t, test.purpose, server.URL)})

		if err != nil || got.Kind != tool.KindInternal || !errors.Is(got.Err, perdure.CauseInterrupt) {
			t.Errorf("%s: got %+v, %v", name, got, err)
		}
	}
}

func TestConfig(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"api.open-meteo.com", "ftp://example.com", "http://", "https://example.com?key=1", "https://user@example.com", "http://exa mple.com", "%"} {
		for _, cfg := range []web.Config{{WeatherURL: bad}, {GeocodingURL: bad}} {
			if _, err := web.Tools(cfg); !errors.Is(err, perdure.Invalid) {
				t.Errorf("%q: got %v", bad, err)
			}
		}
	}
	set, err := web.Tools(web.Config{})
	if err != nil || len(set) != 3 {
		t.Errorf("got %v, %v", set, err)
	}
}
