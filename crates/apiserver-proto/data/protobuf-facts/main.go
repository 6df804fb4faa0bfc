// Prints the facts about the protobuf form of objects: for each kind the message, and for each message its fields
// with number, name in JSON, type and flags. See ../README.md.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"sort"
	"strconv"
	"strings"

	admissionregistration "k8s.io/api/admissionregistration/v1"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	apps "k8s.io/api/apps/v1"
	authentication "k8s.io/api/authentication/v1"
	authorization "k8s.io/api/authorization/v1"
	autoscaling "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batch "k8s.io/api/batch/v1"
	certificates "k8s.io/api/certificates/v1"
	coordination "k8s.io/api/coordination/v1"
	core "k8s.io/api/core/v1"
	discovery "k8s.io/api/discovery/v1"
	events "k8s.io/api/events/v1"
	flowcontrol "k8s.io/api/flowcontrol/v1"
	networking "k8s.io/api/networking/v1"
	node "k8s.io/api/node/v1"
	policy "k8s.io/api/policy/v1"
	rbac "k8s.io/api/rbac/v1"
	scheduling "k8s.io/api/scheduling/v1"
	storage "k8s.io/api/storage/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// Every kind that a client may send or receive, by its apiVersion. Kinds of lists follow from those of their items.
var kinds = map[string][]any{
	"":                       {meta.DeleteOptions{}, meta.APIVersions{}},
	"meta.k8s.io/v1":         {meta.PartialObjectMetadata{}},
	"meta.k8s.io/v1beta1":    {meta.PartialObjectMetadata{}},
	"apidiscovery.k8s.io/v2": {apidiscovery.APIGroupDiscovery{}},
	"v1": {meta.Status{}, meta.APIGroupList{}, meta.APIGroup{}, meta.APIResourceList{},
		core.Namespace{}, core.Secret{}, core.ConfigMap{}, core.Event{}, core.ServiceAccount{}, core.Node{},
		core.Pod{}, core.PodTemplate{}, core.Service{}, core.Endpoints{}, core.ReplicationController{},
		core.ResourceQuota{}, core.LimitRange{}, core.ComponentStatus{}},
	"events.k8s.io/v1":             {events.Event{}},
	"discovery.k8s.io/v1":          {discovery.EndpointSlice{}},
	"apiregistration.k8s.io/v1":    {apiregistration.APIService{}},
	"coordination.k8s.io/v1":       {coordination.Lease{}},
	"rbac.authorization.k8s.io/v1": {rbac.Role{}, rbac.RoleBinding{}, rbac.ClusterRole{}, rbac.ClusterRoleBinding{}},
	"apiextensions.k8s.io/v1":      {apiextensions.CustomResourceDefinition{}},
	"admissionregistration.k8s.io/v1": {admissionregistration.MutatingWebhookConfiguration{},
		admissionregistration.ValidatingWebhookConfiguration{}, admissionregistration.ValidatingAdmissionPolicy{},
		admissionregistration.ValidatingAdmissionPolicyBinding{}, admissionregistration.MutatingAdmissionPolicy{},
		admissionregistration.MutatingAdmissionPolicyBinding{}},
	"apps/v1":                         {apps.Deployment{}, apps.DaemonSet{}, apps.ReplicaSet{}},
	"autoscaling/v1":                  {autoscaling.Scale{}, autoscaling.HorizontalPodAutoscaler{}},
	"autoscaling/v2":                  {autoscalingv2.HorizontalPodAutoscaler{}},
	"batch/v1":                        {batch.Job{}, batch.CronJob{}},
	"flowcontrol.apiserver.k8s.io/v1": {flowcontrol.FlowSchema{}, flowcontrol.PriorityLevelConfiguration{}},
	"networking.k8s.io/v1":            {networking.Ingress{}},
	"node.k8s.io/v1":                  {node.RuntimeClass{}},
	"policy/v1":                       {policy.PodDisruptionBudget{}},
	"scheduling.k8s.io/v1":            {scheduling.PriorityClass{}},
	"storage.k8s.io/v1":               {storage.VolumeAttachment{}, storage.CSINode{}},
	"certificates.k8s.io/v1":          {certificates.CertificateSigningRequest{}},
	"authentication.k8s.io/v1": {authentication.TokenRequest{}, authentication.TokenReview{},
		authentication.SelfSubjectReview{}},
	"authorization.k8s.io/v1": {authorization.SubjectAccessReview{}, authorization.LocalSubjectAccessReview{},
		authorization.SelfSubjectAccessReview{}, authorization.SelfSubjectRulesReview{}},
}

// Types that write themselves as something else in JSON.
var special = map[reflect.Type]string{
	reflect.TypeFor[meta.Time]():                                  "Time",
	reflect.TypeFor[meta.MicroTime]():                             "MicroTime",
	reflect.TypeFor[meta.Duration]():                              "Duration",
	reflect.TypeFor[meta.FieldsV1]():                              "Raw",
	reflect.TypeFor[runtime.RawExtension]():                       "Raw",
	reflect.TypeFor[apiextensions.JSON]():                         "Raw",
	reflect.TypeFor[resource.Quantity]():                          "Quantity",
	reflect.TypeFor[intstr.IntOrString]():                         "IntOrString",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrArray]():       "OneOf",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrBool]():        "OneOf",
	reflect.TypeFor[apiextensions.JSONSchemaPropsOrStringArray](): "OneOf",
}

var messages = map[string][][]any{}

func name(t reflect.Type) string {
	parts := strings.Split(t.PkgPath(), "/")
	return strings.Join(parts[len(parts)-2:], ".") + "." + t.Name()
}

// Whether a value that is nothing is written, too: a scalar or a message that is no pointer.
func isAlwaysWritten(t reflect.Type) bool {
	return t.Kind() != reflect.Pointer && t.Kind() != reflect.Slice && t.Kind() != reflect.Map
}

// The type of a field: a letter for a scalar, `[x]` for a list, `{x}` for a map from texts, `=Name` for what has
// a form of its own, a name for a message. A list is nested if it is a message with one field.
func describe(t reflect.Type, nested bool) string {
	if s, ok := special[t]; ok {
		if s == "OneOf" {
			add(t)
			return "=OneOf:" + name(t)
		}
		return "=" + s
	}
	switch t.Kind() {
	case reflect.Pointer:
		return describe(t.Elem(), nested)
	case reflect.String:
		return "s"
	case reflect.Bool:
		return "t"
	case reflect.Int32, reflect.Int64, reflect.Int:
		return "i"
	case reflect.Uint8, reflect.Uint32, reflect.Uint64:
		return "u"
	case reflect.Float64:
		return "d"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "b"
		}
		if nested {
			return "[[" + describe(t.Elem(), true) + "]]"
		}
		return "[" + describe(t.Elem(), true) + "]"
	case reflect.Map:
		return "{" + describe(t.Elem(), true) + "}"
	case reflect.Struct:
		add(t)
		return name(t)
	}
	panic(fmt.Sprint("what is ", t))
}

func add(t reflect.Type) {
	if _, ok := messages[name(t)]; ok {
		return
	}
	messages[name(t)] = nil
	var fields [][]any
	for i := range t.NumField() {
		f := t.Field(i)
		tag, ok := f.Tag.Lookup("protobuf")
		if !ok || tag == "-" {
			continue
		}
		protobuf := strings.Split(tag, ",")
		number, err := strconv.Atoi(protobuf[1])
		if err != nil {
			panic(err)
		}
		words := strings.Split(f.Tag.Get("json"), ",")
		jsonName := words[0]
		flags := ""
		for _, word := range words[1:] {
			if word == "inline" {
				jsonName = ""
			}
			scalar := f.Type.Kind() != reflect.Pointer && f.Type.Kind() != reflect.Struct
			if (word == "omitempty" && scalar) || word == "omitzero" {
				flags = "z"
			}
		}
		if jsonName == "" && !strings.Contains(f.Tag.Get("json"), "inline") && special[t] != "OneOf" {
			panic(fmt.Sprint(t, f.Name))
		}
		if isAlwaysWritten(f.Type) {
			flags += "v"
		}
		// A type of its own, unlike a plain list: `Verbs` of an APIResource.
		isMessage := f.Type.Kind() == reflect.Slice && f.Type.Name() != "" && protobuf[2] != "rep"
		described := describe(f.Type, isMessage)
		entry := []any{number, jsonName, described}
		if flags != "" {
			entry = append(entry, flags)
		}
		fields = append(fields, entry)
	}
	sort.Slice(fields, func(i, j int) bool { return fields[i][0].(int) < fields[j][0].(int) })
	if fields == nil {
		fields = [][]any{}
	}
	messages[name(t)] = fields
}

func main() {
	roots := map[string]string{}
	add(reflect.TypeFor[meta.ListMeta]())
	for version, values := range kinds {
		for _, value := range values {
			t := reflect.TypeOf(value)
			add(t)
			roots[strings.TrimPrefix(version+"/"+t.Name(), "/")] = name(t)
		}
	}
	facts := map[string]any{"kinds": roots, "messages": messages}
	if err := json.NewEncoder(os.Stdout).Encode(facts); err != nil {
		panic(err)
	}
}
