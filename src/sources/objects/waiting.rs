//! What a scheduler decides by: the parts of a pod that kube-scheduler 1.36 signs, so as to treat equal pods alike
//! (kubernetes/pkg/scheduler/framework, `SignPod`).

use super::or_default::or_default;
use crate::model::waiting::{Apart, Waiting};
use serde::Deserialize;
use serde_json::{Map, Value, json};
use std::collections::BTreeSet;

/// A pod's spec, as far as schedulers look at it.
#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Spec {
    #[serde(deserialize_with = "or_default")]
    scheduler_name: String,
    priority: Option<i64>,
    #[serde(deserialize_with = "or_default")]
    node_selector: Map<String, Value>,
    #[serde(deserialize_with = "or_default")]
    affinity: Map<String, Value>,
    #[serde(deserialize_with = "or_default")]
    tolerations: Vec<Value>,
    #[serde(deserialize_with = "or_default")]
    topology_spread_constraints: Vec<Value>,
    #[serde(deserialize_with = "or_default")]
    resource_claims: Vec<Value>,
    #[serde(deserialize_with = "or_default")]
    volumes: Vec<Map<String, Value>>,
    #[serde(deserialize_with = "or_default")]
    containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    init_containers: Vec<Container>,
    #[serde(deserialize_with = "or_default")]
    scheduling_gates: Vec<Gate>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Container {
    #[serde(deserialize_with = "or_default")]
    image: String,
    #[serde(deserialize_with = "or_default")]
    ports: Vec<Port>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct Port {
    host_port: Option<u32>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Gate {
    name: String,
}

/// Members of objects in the order of their names, and, where `sorts`, elements of lists in the order of their texts.
fn canonical(value: &Value, sorts: bool) -> Value {
    match value {
        Value::Object(members) => {
            let mut members: Vec<(&String, &Value)> = members.iter().collect();
            members.sort_by_key(|(name, _)| *name);
            Value::Object(members.into_iter().map(|(name, value)| (name.clone(), canonical(value, sorts))).collect())
        }
        Value::Array(elements) if sorts => sorted(elements.iter().map(|element| canonical(element, sorts))),
        Value::Array(elements) => Value::Array(elements.iter().map(|element| canonical(element, sorts)).collect()),
        _ => value.clone(),
    }
}

fn sorted(values: impl Iterator<Item = Value>) -> Value {
    let mut values: Vec<Value> = values.collect();
    values.sort_by_cached_key(Value::to_string);
    Value::Array(values)
}

/// An image with its tag; without one it is `latest`, as the scheduler has it.
fn tagged(image: &str) -> String {
    if image.rfind(':') > image.rfind('/') { image.to_owned() } else { format!("{image}:latest") }
}

impl Spec {
    /// What is to be decided by, without what stands beside the spec.
    pub(super) fn waiting(self) -> Waiting {
        let containers = || self.containers.iter().chain(&self.init_containers);
        let images: BTreeSet<String> = containers().map(|container| tagged(&container.image)).collect();
        let ports: BTreeSet<u32> = containers()
            .flat_map(|container| &container.ports)
            .filter_map(|port| port.host_port)
            .filter(|port| *port != 0)
            .collect();
        // What a volume is called is no matter; ConfigMaps and Secrets are everywhere.
        let is_anywhere =
            |volume: &Map<String, Value>| volume.contains_key("configMap") || volume.contains_key("secret");
        let volumes = self.volumes.iter().filter(|volume| !is_anywhere(volume)).map(|volume| {
            let source = volume
                .iter()
                .filter(|(name, _)| *name != "name")
                .map(|(name, value)| (name.clone(), value.clone()))
                .collect();
            canonical(&Value::Object(source), false)
        });
        let affinity =
            |name: &str| self.affinity.get(name).filter(|value| !value.is_null()).map(|value| canonical(value, true));
        let (near, far) = (affinity("podAffinity"), affinity("podAntiAffinity"));
        let each = |values: &[Value]| sorted(values.iter().map(|value| canonical(value, false)));
        let (spread, claims) = (each(&self.topology_spread_constraints), each(&self.resource_claims));
        let is_any = |list: &Value| list.as_array().is_some_and(|list| !list.is_empty());
        let apart = [
            (Apart::PodAffinity, near.is_some() || far.is_some()),
            (Apart::TopologySpread, is_any(&spread)),
            (Apart::ResourceClaims, is_any(&claims)),
        ];
        let needs = json!([
            canonical(&Value::Object(self.node_selector), false),
            affinity("nodeAffinity"),
            each(&self.tolerations),
            ports,
            images,
            sorted(volumes),
            [near, far],
            spread,
            claims,
        ]);
        Waiting {
            scheduler: if self.scheduler_name.is_empty() {
                "default-scheduler".to_owned()
            } else {
                self.scheduler_name
            },
            priority: self.priority.unwrap_or(0),
            needs: needs.to_string(),
            apart: apart.into_iter().filter(|(_, is)| *is).map(|(apart, _)| apart).collect(),
            gates: self.scheduling_gates.into_iter().map(|gate| gate.name).collect(),
            ..Waiting::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn needs(spec: &str) -> Waiting {
        serde_json::from_str::<Spec>(spec).unwrap().waiting()
    }

    #[test]
    fn the_order_of_lists_and_members_is_no_matter() {
        let a = r#"{"nodeSelector":{"a":"1","b":"2"},"tolerations":[{"key":"x","operator":"Exists"},{"key":"y"}],
            "affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
                {"matchExpressions":[{"key":"zone","operator":"In","values":["b","a"]}]}]}}},
            "volumes":[{"name":"v","emptyDir":{}},{"name":"c","configMap":{"name":"mine"}}],
            "containers":[{"image":"nginx","ports":[{"hostPort":80},{"containerPort":1}]},{"image":"r:5000/x"}]}"#;
        let b = r#"{"schedulerName":"default-scheduler","nodeSelector":{"b":"2","a":"1"},"tolerations":[{"key":"y"},{"operator":"Exists","key":"x"}],
            "affinity":{"podAffinity":null,"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":{"nodeSelectorTerms":[
                {"matchExpressions":[{"values":["a","b"],"operator":"In","key":"zone"}]}]}}},
            "volumes":[{"emptyDir":{},"name":"w"},{"name":"s","secret":{"secretName":"other"}}],
            "containers":[{"image":"r:5000/x:latest"}],"initContainers":[{"image":"nginx:latest","ports":[{"hostPort":80}]}]}"#;
        assert_eq!(needs(a), needs(b));
        assert_eq!(needs(a).apart, []);
    }

    #[test]
    fn what_matters_tells_pods_apart() {
        let plain = needs(r#"{"containers":[{"image":"a"}]}"#);
        for other in [
            r#"{"containers":[{"image":"a:2"}]}"#,
            r#"{"containers":[{"image":"a","ports":[{"hostPort":1}]}]}"#,
            r#"{"containers":[{"image":"a"}],"nodeSelector":{"a":"b"}}"#,
            r#"{"containers":[{"image":"a"}],"tolerations":[{"operator":"Exists"}]}"#,
            r#"{"containers":[{"image":"a"}],"volumes":[{"name":"x","persistentVolumeClaim":{"claimName":"c"}}]}"#,
            r#"{"containers":[{"image":"a"}],"affinity":{"podAntiAffinity":{"preferredDuringSchedulingIgnoredDuringExecution":[]}}}"#,
        ] {
            assert_ne!(needs(other).needs, plain.needs, "{other}");
        }
        let all = needs(
            r#"{"affinity":{"podAffinity":{}},"topologySpreadConstraints":[{"maxSkew":1}],"resourceClaims":[{"name":"gpu"}]}"#,
        );
        assert_eq!(all.apart, [Apart::PodAffinity, Apart::TopologySpread, Apart::ResourceClaims]);
        assert_eq!(
            needs(r#"{"schedulingGates":[{"name":"quota"}],"priority":7,"schedulerName":"volcano"}"#).gates,
            ["quota"]
        );
    }
}
