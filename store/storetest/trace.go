package storetest

import (
	"fmt"
	"reflect"
	"strings"
)

// TracesOf walks everything that is reachable from a value, which must not contain a cycle, and
// returns the paths of the fields that contain a text. A store that keeps everything in memory uses
// it to find what a removed session left.
func TracesOf(v reflect.Value, path, word string) (found []string) {
	switch v.Kind() {
	case reflect.String:
		if strings.Contains(v.String(), word) {
			found = append(found, path)
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			found = TracesOf(v.Elem(), path, word)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			found = append(found, TracesOf(v.Field(i), path+"."+v.Type().Field(i).Name, word)...)
		}
	case reflect.Slice, reflect.Array:
		if v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8 {
			if strings.Contains(string(v.Bytes()), word) {
				found = append(found, path)
			}
			return found
		}
		for i := range v.Len() {
			found = append(found, TracesOf(v.Index(i), fmt.Sprintf("%s[%d]", path, i), word)...)
		}
	case reflect.Map:
		for entry := v.MapRange(); entry.Next(); {
			found = append(found, TracesOf(entry.Key(), path+" key", word)...)
			found = append(found, TracesOf(entry.Value(), path+" value", word)...)
		}
	}
	return found
}
