//! Runs MQSim for comparison with SSDs, if `MQSIM` names its program (built from github.com/CMU-SAFARI/MQSim, MIT).
//!
//! MQSim simulates an array of the same shape with the same times. Reads in MQSim run either with the whole
//! map in memory, as in flashlab, or with 2 MiB of the map in memory. The latter is MQSim's default and gives
//! about the speed of the yardstick. MQSim's map has one entry per page, and no write buffer collects small
//! writes into pages. A write of 4 KiB therefore programs a whole page of 16 KiB, after reading this page if
//! it is mapped. Writes run on a smaller drive with 17 GiB of pages, the same spare and greedy garbage
//! collection. The measurement of writes begins and ends at two given numbers of writes, and garbage
//! collection is active at both. MQSim stops by itself near the second number or later, with all requests in
//! flight (commit 7ec40e3). The measurement counts the requests serviced by then.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const READS: u64 = 300_000;
/// Numbers of writes between which MQSim is measured.
const WRITES: [u64; 2] = [1_500_000, 2_250_000];
/// Minimum number of writes in a valid measurement.
const WRITES_LEAST: u64 = 250_000;
/// Clock ticks per second of the CPU times in /proc, as on every Linux architecture that runs MQSim.
const TICKS: f64 = 100.0;

/// The counts of a run of MQSim, and its CPU seconds.
pub(super) struct Done {
    pub(super) requests: u64,
    pub(super) seconds: f64,
    /// Operations of the array; `programs` counts the program operations among them.
    pub(super) operations: u64,
    pub(super) programs: u64,
}

/// A drive and its workload.
struct Scenario {
    whole_map: bool,
    /// Blocks per die.
    blocks: u32,
    /// Share of the pages that remain unmapped after the whole drive is written.
    spare: f64,
    read_percent: u32,
    depth: u32,
    requests: u64,
}

/// Runs 4 KiB random reads on a drive of 256 GiB.
pub(super) fn random_reads(program: &Path, whole_map: bool, depth: u32) -> Result<Done, String> {
    // Enough blocks for 256 GiB and some spare. The spare is MQSim's default.
    let scenario =
        Scenario { whole_map, blocks: 2200, spare: 0.07, read_percent: 100, depth, requests: READS };
    let done = run(program, &scenario)?;
    if done.requests == READS {
        Ok(done)
    } else {
        Err(format!("it serviced {} of {READS} reads", done.requests))
    }
}

/// Runs 4 KiB random writes with garbage collection active. The number of the drive's pages exceeds that of
/// the mapped pages by `spare_percent` percent.
pub(super) fn random_writes(program: &Path, spare_percent: u32, depth: u32) -> Result<Done, String> {
    let spare = f64::from(spare_percent) / f64::from(100 + spare_percent);
    let scenario =
        |requests| Scenario { whole_map: true, blocks: 138, spare, read_percent: 0, depth, requests };
    let [before, after] = WRITES.map(|requests| run(program, &scenario(requests)));
    let (before, after) = (before?, after?);
    if after.requests < before.requests + WRITES_LEAST {
        return Err(format!("it stopped after {} writes", after.requests));
    }
    Ok(Done {
        requests: after.requests - before.requests,
        seconds: after.seconds - before.seconds,
        operations: after.operations - before.operations,
        programs: after.programs - before.programs,
    })
}

/// A temporary folder. Dropping it deletes the folder.
struct Folder(PathBuf);

impl Drop for Folder {
    fn drop(&mut self) {
        // An error is ignored because the folder is temporary.
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(program: &Path, scenario: &Scenario) -> Result<Done, String> {
    let failed = |what: &str, why: std::io::Error| format!("{what}: {why}");
    let Folder(here) = &Folder(std::env::temp_dir().join(format!("flashlab-mqsim-{}", std::process::id())));
    fs::create_dir_all(here).map_err(|why| failed("a temporary folder", why))?;
    for (file, text) in [("device.xml", scenario.device()), ("jobs.xml", scenario.jobs())] {
        fs::write(here.join(file), text).map_err(|why| failed(file, why))?;
    }
    let program = fs::canonicalize(program).map_err(|why| failed(&program.display().to_string(), why))?;
    let before = children_ticks()?;
    // MQSim waits for a key before it exits, so it gets an empty standard input.
    let output = Command::new(&program)
        .args(["-i", "device.xml", "-w", "jobs.xml"])
        .current_dir(here)
        .stdin(Stdio::null())
        .output()
        .map_err(|why| failed(&program.display().to_string(), why))?;
    let seconds = (children_ticks()? - before) / TICKS;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let results = fs::read_to_string(here.join("jobs_scenario_1.xml"))
        .map_err(|why| format!("no results, {}: {why}\n{said}", output.status))?;
    let count = |operation: &str| number(&results, &format!(" Issued_Flash_{operation}_CMD=\""));
    let programs = count("Program")?;
    Ok(Done {
        requests: number(&said, "total requests serviced:")?,
        seconds,
        operations: count("Read")? + programs + count("Erase")?,
        programs,
    })
}

/// Returns the number after a label.
fn number(text: &str, label: &str) -> Result<u64, String> {
    let (_, rest) = text.split_once(label).ok_or_else(|| format!("it does not say `{label}`:\n{text}"))?;
    let digits = rest.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
    digits.parse().map_err(|why| format!("`{label}{digits}`: {why}"))
}

/// Returns the CPU time of the ended child processes, in ticks.
fn children_ticks() -> Result<f64, String> {
    const FILE: &str = "/proc/self/stat";
    let text = fs::read_to_string(FILE).map_err(|why| format!("{FILE}: {why}"))?;
    // After the name, which may contain any character, cutime and cstime are the 14th and the 15th field.
    let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace().skip(13).take(2);
    let ticks = fields.map(|field| field.parse::<f64>()).sum::<Result<f64, _>>();
    ticks.map_err(|why| format!("{FILE}: {why}"))
}

impl Scenario {
    /// Returns the configuration of an array like that of `nvme/reference`. All other settings are MQSim's defaults.
    fn device(&self) -> String {
        let Scenario { whole_map, blocks, spare, .. } = self;
        format!(
            r#"<?xml version="1.0" encoding="us-ascii"?>
<Execution_Parameter_Set>
	<Host_Parameter_Set></Host_Parameter_Set>
	<Device_Parameter_Set>
		<Enabled_Preconditioning>false</Enabled_Preconditioning>
		<Ideal_Mapping_Table>{whole_map}</Ideal_Mapping_Table>
		<Overprovisioning_Ratio>{spare}</Overprovisioning_Ratio>
		<GC_Block_Selection_Policy>GREEDY</GC_Block_Selection_Policy>
		<Dynamic_Wearleveling_Enabled>false</Dynamic_Wearleveling_Enabled>
		<Static_Wearleveling_Enabled>false</Static_Wearleveling_Enabled>
		<Flash_Channel_Count>8</Flash_Channel_Count>
		<Flash_Channel_Width>1</Flash_Channel_Width>
		<Channel_Transfer_Rate>1200</Channel_Transfer_Rate>
		<Chip_No_Per_Channel>4</Chip_No_Per_Channel>
		<Flash_Parameter_Set>
			<Flash_Technology>TLC</Flash_Technology>
			<Page_Read_Latency_LSB>50000</Page_Read_Latency_LSB>
			<Page_Read_Latency_CSB>50000</Page_Read_Latency_CSB>
			<Page_Read_Latency_MSB>50000</Page_Read_Latency_MSB>
			<Page_Program_Latency_LSB>300000</Page_Program_Latency_LSB>
			<Page_Program_Latency_CSB>600000</Page_Program_Latency_CSB>
			<Page_Program_Latency_MSB>900000</Page_Program_Latency_MSB>
			<Block_Erase_Latency>5000000</Block_Erase_Latency>
			<Die_No_Per_Chip>1</Die_No_Per_Chip>
			<Plane_No_Per_Die>1</Plane_No_Per_Die>
			<Block_No_Per_Plane>{blocks}</Block_No_Per_Plane>
			<Page_No_Per_Block>256</Page_No_Per_Block>
			<Page_Capacity>16384</Page_Capacity>
		</Flash_Parameter_Set>
	</Device_Parameter_Set>
</Execution_Parameter_Set>
"#
        )
    }

    fn jobs(&self) -> String {
        let Scenario { read_percent, depth, requests, .. } = self;
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
			<Read_Percentage>{read_percent}</Read_Percentage>
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
			<Total_Requests_To_Generate>{requests}</Total_Requests_To_Generate>
		</IO_Flow_Parameter_Set_Synthetic>
	</IO_Scenario>
</MQSim_IO_Scenarios>
"#
        )
    }
}
