//! The peer of SSDs: MQSim, where `MQSIM` names its program (it is built from github.com/CMU-SAFARI/MQSim, MIT).
//!
//! It reads on the same shape of array at the same times, with the whole map in memory, as ours has it, or with 2 MiB of it,
//! as it comes, which takes it about as long as the yardstick says. Writes are not compared: in this shape it ends with an
//! error of its own as soon as it collects (commit 7ec40e3).

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

const READS: u64 = 300_000;
/// Clock ticks a second of what /proc tells of children: of Linux on every architecture that has MQSim.
const TICKS: f64 = 100.0;

/// 4 KiB random reads: how many, and the CPU seconds that they took.
pub(super) fn random_reads(program: &Path, whole_map: bool, depth: u32) -> Result<(u64, f64), String> {
    let here = std::env::temp_dir().join(format!("flashlab-mqsim-{}", std::process::id()));
    let outcome = run(program, &here, &device(whole_map), &workload(depth));
    // Temporary: whether it stays matters to nobody.
    let _ = fs::remove_dir_all(&here);
    outcome
}

fn run(program: &Path, here: &Path, device: &str, workload: &str) -> Result<(u64, f64), String> {
    let failed = |what: &str, why: std::io::Error| format!("{what}: {why}");
    fs::create_dir_all(here).map_err(|why| failed("a folder for what is temporary", why))?;
    for (file, text) in [("device.xml", device), ("reads.xml", workload)] {
        fs::write(here.join(file), text).map_err(|why| failed(file, why))?;
    }
    let program = fs::canonicalize(program).map_err(|why| failed(&program.display().to_string(), why))?;
    let before = children_ticks()?;
    // It waits for a key at its end.
    let output = Command::new(&program)
        .args(["-i", "device.xml", "-w", "reads.xml"])
        .current_dir(here)
        .stdin(Stdio::null())
        .output()
        .map_err(|why| failed(&program.display().to_string(), why))?;
    let seconds = (children_ticks()? - before) / TICKS;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    if !said.contains(&format!("total requests serviced:{READS}")) {
        return Err(format!("it has not served {READS} requests: {}\n{said}", output.status));
    }
    Ok((READS, seconds))
}

/// CPU time of the children that have ended.
fn children_ticks() -> Result<f64, String> {
    const FILE: &str = "/proc/self/stat";
    let text = fs::read_to_string(FILE).map_err(|why| format!("{FILE}: {why}"))?;
    // Behind the name, which may hold anything, cutime and cstime are the 14th and the 15th field.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    let ticks = fields.map(|field| field.parse::<f64>()).sum::<Result<f64, _>>();
    ticks.map_err(|why| format!("{FILE}: {why}"))
}

/// The array of `nvme/reference`, with as many blocks as 256 GiB and some spare need; what is not said is MQSim's own.
fn device(whole_map: bool) -> String {
    format!(
        r#"<?xml version="1.0" encoding="us-ascii"?>
<Execution_Parameter_Set>
	<Host_Parameter_Set></Host_Parameter_Set>
	<Device_Parameter_Set>
		<Enabled_Preconditioning>false</Enabled_Preconditioning>
		<Ideal_Mapping_Table>{whole_map}</Ideal_Mapping_Table>
		<Flash_Channel_Count>8</Flash_Channel_Count>
		<Flash_Channel_Width>1</Flash_Channel_Width>
		<Channel_Transfer_Rate>1200</Channel_Transfer_Rate>
		<Chip_No_Per_Channel>4</Chip_No_Per_Channel>
		<Flash_Parameter_Set>
			<Page_Read_Latency_LSB>50000</Page_Read_Latency_LSB>
			<Page_Read_Latency_CSB>50000</Page_Read_Latency_CSB>
			<Page_Read_Latency_MSB>50000</Page_Read_Latency_MSB>
			<Die_No_Per_Chip>1</Die_No_Per_Chip>
			<Plane_No_Per_Die>1</Plane_No_Per_Die>
			<Block_No_Per_Plane>2200</Block_No_Per_Plane>
			<Page_No_Per_Block>256</Page_No_Per_Block>
			<Page_Capacity>16384</Page_Capacity>
		</Flash_Parameter_Set>
	</Device_Parameter_Set>
</Execution_Parameter_Set>
"#
    )
}

fn workload(depth: u32) -> String {
    format!(
        r#"<?xml version="1.0" encoding="us-ascii"?>
<MQSim_IO_Scenarios>
	<IO_Scenario>
		<IO_Flow_Parameter_Set_Synthetic>
			<Priority_Class>HIGH</Priority_Class>
			<Device_Level_Data_Caching_Mode>TURNED_OFF</Device_Level_Data_Caching_Mode>
			<Channel_IDs>0,1,2,3,4,5,6,7</Channel_IDs>
			<Chip_IDs>0,1,2,3</Chip_IDs>
			<Die_IDs>0</Die_IDs>
			<Plane_IDs>0</Plane_IDs>
			<Initial_Occupancy_Percentage>0</Initial_Occupancy_Percentage>
			<Working_Set_Percentage>100</Working_Set_Percentage>
			<Synthetic_Generator_Type>QUEUE_DEPTH</Synthetic_Generator_Type>
			<Read_Percentage>100</Read_Percentage>
			<Address_Distribution>RANDOM_UNIFORM</Address_Distribution>
			<Percentage_of_Hot_Region>0</Percentage_of_Hot_Region>
			<Generated_Aligned_Addresses>true</Generated_Aligned_Addresses>
			<Address_Alignment_Unit>8</Address_Alignment_Unit>
			<Request_Size_Distribution>FIXED</Request_Size_Distribution>
			<Average_Request_Size>8</Average_Request_Size>
			<Variance_Request_Size>0</Variance_Request_Size>
			<Seed>1</Seed>
			<Average_No_of_Reqs_in_Queue>{depth}</Average_No_of_Reqs_in_Queue>
			<Intensity>32768</Intensity>
			<Stop_Time>0</Stop_Time>
			<Total_Requests_To_Generate>{READS}</Total_Requests_To_Generate>
		</IO_Flow_Parameter_Set_Synthetic>
	</IO_Scenario>
</MQSim_IO_Scenarios>
"#
    )
}
